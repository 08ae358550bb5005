package raftnode

import (
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raftConns are connections of Raft that raft itself does not close: the accepted ones, or those
// that it dialed and waits on.
type raftConns struct {
	mu     sync.Mutex
	conns  map[net.Conn]bool // true: untargeted
	closed bool              // closeAll was called
}

// trackedConn is a connection that is forgotten when it is closed.
type trackedConn struct {
	net.Conn
	conns *raftConns
}

func newRaftConns() *raftConns { return &raftConns{conns: make(map[net.Conn]bool)} }

// track closes a connection that comes after closeAll.
func (c *raftConns) track(conn net.Conn, untargeted bool) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
	}
	c.conns[conn] = untargeted
	return trackedConn{Conn: conn, conns: c}
}

// Close implements net.Conn.
func (t trackedConn) Close() error {
	t.conns.mu.Lock()
	delete(t.conns.conns, t.Conn)
	t.conns.mu.Unlock()
	return t.Conn.Close()
}

func (c *raftConns) closeUntargeted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn, untargeted := range c.conns {
		if untargeted {
			_ = conn.Close()
		}
	}
}

func (c *raftConns) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.conns {
		_ = conn.Close()
	}
}

// trackedStream tracks the connections that it dials.
type trackedStream struct {
	raft.StreamLayer
	dialed *raftConns
}

// Dial implements raft.StreamLayer.
func (s trackedStream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := s.StreamLayer.Dial(address, timeout)
	if err != nil {
		return nil, err
	}
	return s.dialed.track(conn, false), nil
}
