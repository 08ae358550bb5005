package raftnode

import (
	"net"
	"sync"
)

// raftConns are the accepted connections of Raft, which raft itself does not close.
type raftConns struct {
	mu    sync.Mutex
	conns map[net.Conn]bool // true: untargeted
}

// trackedConn is a connection that is forgotten when it is closed.
type trackedConn struct {
	net.Conn
	conns *raftConns
}

func newRaftConns() *raftConns { return &raftConns{conns: make(map[net.Conn]bool)} }

func (c *raftConns) track(conn net.Conn, untargeted bool) net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	for conn := range c.conns {
		_ = conn.Close()
	}
}
