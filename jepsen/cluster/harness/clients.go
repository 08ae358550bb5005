package harness

import (
	"fmt"
	"sync"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// clients keeps one connection per child. They connect again by themselves, soon.
type clients struct {
	*workspace
	connMu sync.Mutex
	conns  map[string]*grpc.ClientConn
}

func newClients(w *workspace) *clients {
	return &clients{workspace: w, conns: map[string]*grpc.ClientConn{}}
}

// Dial connects to a CSI socket: `unix:///...`, as in cluster.json.
func Dial(endpoint string) (*grpc.ClientConn, error) {
	quick := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 300 * time.Millisecond}
	return grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
}

// conn is the connection to a child's CSI socket.
func (cl *clients) conn(id string) (*grpc.ClientConn, error) {
	cl.connMu.Lock()
	defer cl.connMu.Unlock()
	if held := cl.conns[id]; held != nil {
		return held, nil
	}
	endpoint, err := cl.endpoint(id)
	if err != nil {
		return nil, err
	}
	conn, err := Dial(endpoint)
	if err == nil {
		cl.conns[id] = conn
	}
	return conn, err
}

func (cl *clients) endpoint(id string) (string, error) {
	l, err := cl.Layout()
	if err != nil {
		return "", err
	}
	for _, ctl := range l.Controllers {
		if ctl.ID == id {
			return ctl.Endpoint, nil
		}
	}
	for _, n := range l.Nodes {
		if n.ID == id {
			return n.Endpoint, nil
		}
	}
	return "", fmt.Errorf("cluster.json has no child %q", id)
}

// Controller speaks CSI's Controller service with one controller.
func (cl *clients) Controller(id string) (csi.ControllerClient, error) {
	conn, err := cl.conn(id)
	if err != nil {
		return nil, err
	}
	return csi.NewControllerClient(conn), nil
}

// Groups speaks CSI's GroupController service with one controller.
func (cl *clients) Groups(id string) (csi.GroupControllerClient, error) {
	conn, err := cl.conn(id)
	if err != nil {
		return nil, err
	}
	return csi.NewGroupControllerClient(conn), nil
}

// Node speaks CSI's Node service with one node.
func (cl *clients) Node(id string) (csi.NodeClient, error) {
	conn, err := cl.conn(id)
	if err != nil {
		return nil, err
	}
	return csi.NewNodeClient(conn), nil
}

// Identity speaks CSI's Identity service with any child.
func (cl *clients) Identity(id string) (csi.IdentityClient, error) {
	conn, err := cl.conn(id)
	if err != nil {
		return nil, err
	}
	return csi.NewIdentityClient(conn), nil
}

// CloseClients ends all connections; the next use of a client connects again.
func (cl *clients) CloseClients() { cl.closeAll() }

func (cl *clients) closeAll() {
	cl.connMu.Lock()
	defer cl.connMu.Unlock()
	for id, conn := range cl.conns {
		_ = conn.Close()
		delete(cl.conns, id)
	}
}
