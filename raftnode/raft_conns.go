package raftnode

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
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

// errStalled is the read error of a connection whose message does not go on.
var errStalled = errors.New("the rest of a message did not come")

// receivedConn bounds the wait for the rest of a message. Raft's main loop receives a Raft snapshot, and
// while it waits for the rest it answers nobody: a sender that stands still would keep this member from
// an election for as long. A connection without a message may be silent for any time.
type receivedConn struct {
	net.Conn
	timeout time.Duration
	began   atomic.Bool // part of a message was read, and it was not answered yet
	stalled atomic.Bool
}

// Read implements net.Conn. After a message has stalled nothing more is read: raft reads on.
func (c *receivedConn) Read(b []byte) (int, error) {
	if c.stalled.Load() {
		return 0, errStalled
	}
	var deadline time.Time
	if c.began.Load() {
		deadline = time.Now().Add(c.timeout)
	}
	if err := c.SetReadDeadline(deadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	c.began.Store(c.began.Load() || n > 0)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.stalled.Store(true)
		return n, errors.Join(errStalled, c.Close())
	}
	return n, err
}

// Write implements net.Conn: an answer, after which the next message may come at any time.
func (c *receivedConn) Write(b []byte) (int, error) {
	c.began.Store(false)
	return c.Conn.Write(b)
}

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
