package sim

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// network carries calls between hosts and controllers. Within a stream nothing is reordered. Who
// calls sees a break at once; what was sent before it may arrive later all the same.
type network struct {
	s       *Sim
	mu      sync.Mutex
	servers map[string]*netServer
	links   []*stream      // open streams, in the order of their beginnings
	streams map[string]int // by caller, to number them
}

func newNetwork(s *Sim) *network {
	return &network{s: s, servers: map[string]*netServer{}, streams: map[string]int{}}
}

// netServer is one process that serves.
type netServer struct {
	name     string
	life     context.Context
	services map[string]*netService
}

type netService struct {
	desc *grpc.ServiceDesc
	impl any
}

// RegisterService implements grpc.ServiceRegistrar.
func (n *netServer) RegisterService(desc *grpc.ServiceDesc, impl any) {
	n.services[desc.ServiceName] = &netService{desc, impl}
}

// listen makes a process reachable under a name, in place of the one before.
func (n *network) listen(life context.Context, name string) *netServer {
	server := &netServer{name: name, life: life, services: map[string]*netService{}}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers[name] = server
	return server
}

// server is the process that listens under the name, nil when none does.
func (n *network) server(name string) *netServer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if server := n.servers[name]; server != nil && server.life.Err() == nil {
		return server
	}
	return nil
}

func (n *network) up(a, b string) bool {
	links := n.s.world.Links()
	return links.Up(fsm.NodeID(a), fsm.NodeID(b)) && links.Up(fsm.NodeID(b), fsm.NodeID(a))
}

// number numbers the streams of a caller.
func (n *network) number(from string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.streams[from]++
	return n.streams[from]
}

// netConn is the connection of one process to another; it implements session.Conn.
type netConn struct {
	net      *network
	from, to string
	role     string
	life     context.Context // of the process that calls
	direct   bool            // calls are not delayed: controllers asking each other
}

var errNoConnection = status.Error(codes.Unavailable, "no connection")

// Connect does nothing: a connection is there when its ends are.
func (c *netConn) Connect() {}

// ResetConnectBackoff does nothing.
func (c *netConn) ResetConnectBackoff() {}

// Close does nothing.
func (c *netConn) Close() error { return nil }

// GetState tells whether the other end can be reached.
func (c *netConn) GetState() connectivity.State {
	if c.net.server(c.to) != nil && c.net.up(c.from, c.to) {
		return connectivity.Ready
	}
	return connectivity.TransientFailure
}

// WaitForStateChange waits until ctx ends: whoever tries again sees the state then.
func (c *netConn) WaitForStateChange(ctx context.Context, _ connectivity.State) bool {
	<-ctx.Done()
	return false
}

// identity adds the caller's certificate to the context of a call.
func (c *netConn) identity(ctx context.Context) context.Context {
	uri := &url.URL{Scheme: "spiffe", Host: clusterName, Path: "/" + c.role + "/" + c.from}
	cert := &x509.Certificate{URIs: []*url.URL{uri}}
	info := credentials.TLSInfo{State: tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}}
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: info})
}

// find returns the service of a method, and the method's name.
func (n *netServer) find(full string) (service *netService, method string) {
	name, method, _ := strings.Cut(strings.TrimPrefix(full, "/"), "/")
	return n.services[name], method
}

// Invoke does a unary call.
func (c *netConn) Invoke(ctx context.Context, full string, args, reply any, _ ...grpc.CallOption) error {
	call := &unaryCall{conn: c, full: full, request: proto.Clone(args.(proto.Message)), done: make(chan unaryReply, 1)}
	var stop context.CancelFunc
	call.ctx, stop = context.WithCancel(ctx)
	defer stop()
	if c.life.Err() != nil {
		return errNoConnection
	}
	if c.direct {
		call.serveNow()
	} else {
		c.net.s.pending.add(call.requestEvent())
	}
	select {
	case r := <-call.done:
		if r.err != nil {
			return r.err
		}
		proto.Merge(reply.(proto.Message), r.message)
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-c.life.Done():
		return errNoConnection
	}
}

type unaryReply struct {
	message proto.Message
	err     error
}

// unaryCall is a call with one request and one answer.
type unaryCall struct {
	conn    *netConn
	ctx     context.Context
	full    string
	request proto.Message
	done    chan unaryReply
}

func (u *unaryCall) key(what string) string {
	name := u.full[strings.LastIndex(u.full, "/")+1:]
	if p, ok := u.request.(*sessionpb.ProposeRequest); ok {
		name += " " + commandName(p.GetCommand())
	}
	return fmt.Sprintf("message %s->%s %s: %s", u.conn.from, u.conn.to, name, what)
}

func (u *unaryCall) reply(r unaryReply) {
	select {
	case u.done <- r:
	default:
	}
}

func (u *unaryCall) requestEvent() *event {
	return &event{key: u.key("request"), kind: kindMessage, ready: u.deliverable, do: u.arrive}
}

// deliverable: a link that is down keeps what is on its way.
func (u *unaryCall) deliverable() bool {
	c := u.conn
	return c.net.up(c.from, c.to) || c.net.server(c.to) == nil
}

// lateCallTimeout ends a call whose caller nobody knows to be gone.
const lateCallTimeout = 20 * time.Second

// arrive begins to serve the call, although its caller may be gone.
func (u *unaryCall) arrive() {
	server := u.conn.net.server(u.conn.to)
	if server == nil {
		u.reply(unaryReply{err: errNoConnection})
		return
	}
	late := u.ctx.Err() != nil
	if late && !u.conn.net.s.tape.oneIn(3) {
		return
	}
	if late {
		u.conn.net.s.counts["late message"]++
	}
	ctx, cancel := context.WithTimeout(u.conn.identity(server.life), lateCallTimeout)
	stop := func() bool { return true }
	if !late { // else the server does not know yet that nobody waits
		stop = context.AfterFunc(u.ctx, cancel)
	}
	go func() {
		defer cancel()
		defer stop()
		message, err := u.handle(ctx, server)
		r := unaryReply{message, err}
		u.conn.net.s.pending.add(&event{
			key: u.key("answer"), kind: kindMessage, ready: u.deliverable, stale: func() bool { return u.ctx.Err() != nil }, do: func() { u.reply(r) },
		})
	}()
}

// serveNow serves a call at once, in its caller's goroutine.
func (u *unaryCall) serveNow() {
	server := u.conn.net.server(u.conn.to)
	if server == nil || !u.conn.net.up(u.conn.from, u.conn.to) {
		u.reply(unaryReply{err: errNoConnection})
		return
	}
	message, err := u.handle(u.conn.identity(u.ctx), server)
	u.reply(unaryReply{message, err})
}

func (u *unaryCall) handle(ctx context.Context, server *netServer) (proto.Message, error) {
	service, method := server.find(u.full)
	for i := range service.desc.Methods {
		if service.desc.Methods[i].MethodName != method {
			continue
		}
		decode := func(into any) error {
			proto.Merge(into.(proto.Message), u.request)
			return nil
		}
		answer, err := service.desc.Methods[i].Handler(service.impl, ctx, decode, nil)
		if err != nil {
			return nil, status.Convert(err).Err()
		}
		return proto.Clone(answer.(proto.Message)), nil
	}
	return nil, status.Error(codes.Unimplemented, u.full)
}

// openStreams are the streams whose callers have not ended them, in the order of their beginnings.
func (n *network) openStreams() []*stream {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := n.links[:0]
	for _, st := range n.links {
		if st.ctx.Err() == nil && !st.down.isBroken() {
			open = append(open, st)
		}
	}
	n.links = open
	return append([]*stream(nil), open...)
}
