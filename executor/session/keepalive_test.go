package session

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cable is a proxy that can be cut without either end being told.
type cable struct {
	listener net.Listener
	to       string
	mu       sync.Mutex // held while it is cut
	open     sync.WaitGroup
}

func newCable(t *testing.T, to string) *cable {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cable{listener: listener, to: to}
	c.open.Go(c.accept)
	t.Cleanup(func() { require.NoError(t, listener.Close()); c.open.Wait() })
	return c
}

func (c *cable) accept() {
	for {
		here, err := c.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = here.Close()
			continue
		}
		c.open.Go(func() { c.carry(here, there) })
		c.open.Go(func() { c.carry(there, here) })
	}
}

func (c *cable) carry(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		c.mu.Lock()
		_, err = to.Write(buffer[:n])
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func TestBothEndsNoticeWithinSecondsThatTheOtherIsGone(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	l.members[0].server.pace = usual
	c := newCable(t, l.members[0].api.addr)
	n := l.nodeAt("n1", c.listener.Addr().String())
	n.client.pace = usual
	n.run(t)
	eventually(t, "the session is up", func() bool { return n.client.Connected() && l.members[0].server.Sessions() == 1 })
	c.mu.Lock()
	mend := sync.OnceFunc(c.mu.Unlock)
	defer mend()
	cut := time.Now()
	eventually(t, "both ends noticed", func() bool { return !n.client.Connected() && l.members[0].server.Sessions() == 0 })
	require.Less(t, time.Since(cut), usual.silence+20*time.Second)
	mend()
	eventually(t, "the session is up again", n.client.Connected)
}
