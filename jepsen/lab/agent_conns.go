package lab

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// agentConns are the connections to the agent of one run of a guest. They are closed when the run ends,
// because a guest that loses its power closes none. Each request has a connection of its own: one that was idle while
// its guest was paused or cut off may be dead, and a script that was sent over it is not sent again, as it may have run.
type agentConns struct {
	mu    sync.Mutex
	open  map[net.Conn]bool
	ended bool
	http  *http.Client
}

func newAgentConns() *agentConns {
	l := &agentConns{open: map[net.Conn]bool{}}
	l.http = &http.Client{Transport: &http.Transport{DialContext: l.dial, DisableKeepAlives: true}}
	return l
}

func (l *agentConns) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		_ = conn.Close() // nothing was sent
		return nil, ErrDown
	}
	l.open[conn] = true
	return &agentConn{Conn: conn, owner: l}, nil
}

func (l *agentConns) closeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for conn := range l.open {
		_ = conn.Close() // the other end is gone
	}
	clear(l.open)
}

// agentConn is a connection that removes itself from agentConns when it is closed.
type agentConn struct {
	net.Conn
	owner *agentConns
}

func (l *agentConn) Close() error {
	l.owner.mu.Lock()
	delete(l.owner.open, l.Conn)
	l.owner.mu.Unlock()
	return l.Conn.Close()
}
