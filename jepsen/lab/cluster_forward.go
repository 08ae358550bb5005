package lab

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// forwardDialTimeout bounds how long a guest may take to connect to an address.
const forwardDialTimeout = 10 * time.Second

// forwards are addresses of this host that stand for addresses that a guest reaches. What a program of the
// host sends there leaves from that guest: a program that runs in the guest itself costs ten times as much,
// because the kernel of a guest maps each page of a process with calls to the host's.
type forwards struct {
	mu        sync.Mutex
	listeners map[forward]net.Listener
}

type forward struct {
	guest       int
	network, to string
}

func newForwards() *forwards { return &forwards{listeners: map[forward]net.Listener{}} }

// address is the one of this host that stands for one that the guest reaches.
func (f *forwards) address(g *Guest, to string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.listen(g, forward{g.Index, "tcp", to}, "127.0.0.1:0")
}

// listen listens where an address of the guest is not forwarded from yet. The lock is held.
func (f *forwards) listen(g *Guest, from forward, at string) (string, error) {
	held := f.listeners[from]
	if held == nil {
		listener, err := net.Listen(from.network, at)
		if err != nil {
			return "", err
		}
		go acceptFrom(listener, g, from)
		f.listeners[from], held = listener, listener
	}
	return held.Addr().String(), nil
}

// ForwardController listens on a socket of this host, once for each guest, that stands for the CSI socket of the guest's
// controller: for programs that are given the path of one. It is closed with the cluster.
func (c *Cluster) ForwardController(i int, path string) error {
	c.forwards.mu.Lock()
	defer c.forwards.mu.Unlock()
	_, err := c.forwards.listen(c.Lab.Guest(i), forward{i, "unix", ControllerSocket}, path)
	return err
}

// ControllerMetrics is the address of this host that stands for the metrics of a guest's controller, NodeMetrics that of its node's. They
// listen on the guest's loopback, as by default.
func (c *Cluster) ControllerMetrics(i int) (string, error) { return c.forwardMetrics(i, "9801") }

// NodeMetrics is the address of this host that stands for the metrics of a guest's node.
func (c *Cluster) NodeMetrics(i int) (string, error) { return c.forwardMetrics(i, "9811") }

func (c *Cluster) forwardMetrics(i int, port string) (string, error) {
	return c.forwards.address(c.Lab.Guest(i), net.JoinHostPort("127.0.0.1", port))
}

func (f *forwards) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, listener := range f.listeners {
		_ = listener.Close() // nothing more is asked
		delete(f.listeners, key)
	}
}

func acceptFrom(listener net.Listener, g *Guest, to forward) {
	for {
		near, err := listener.Accept()
		if err != nil {
			return // it is closed
		}
		go relay(near, g, to)
	}
}

// relay copies in both directions until one side ends. Who connected to what the guest does not reach sees
// the end of the connection.
func relay(near net.Conn, g *Guest, to forward) {
	defer func() { _ = near.Close() }() // both ends are done
	ctx, cancel := context.WithTimeout(context.Background(), forwardDialTimeout)
	defer cancel()
	far, err := g.Dial(ctx, to.network, to.to)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }() // both ends are done
	ended := make(chan struct{}, 2)
	pipe := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from) // its end is the end of the connection
		ended <- struct{}{}
	}
	go pipe(far, near)
	go pipe(near, far)
	<-ended
}
