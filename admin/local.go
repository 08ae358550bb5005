package admin

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// NewLocalClient makes a client of a server in this process, so that what is printed of it is what is printed of a
// controller. stop ends the server.
func NewLocalClient(server adminpb.AdminServer) (c *Client, stop func()) {
	listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	serving := grpc.NewServer()
	adminpb.RegisterAdminServer(serving, server)
	go func() { _ = serving.Serve(listener) }() // it returns when it is stopped
	return &Client{
		endpoints: []string{"local"}, Timeout: time.Hour,
		local: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(listener.dial)},
	}, serving.Stop
}

// pipeListener accepts connections from inside the process.
type pipeListener struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) dial(ctx context.Context, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is net.Listener's.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "local" }
