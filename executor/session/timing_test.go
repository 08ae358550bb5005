package session

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// pausableProxy is a proxy that can stop forwarding without either end noticing.
type pausableProxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex // locked while it is paused
	running  sync.WaitGroup
}

func newPausableProxy(t *testing.T, to string) *pausableProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &pausableProxy{listener: listener, target: to}
	c.running.Go(c.accept)
	t.Cleanup(func() { require.NoError(t, listener.Close()); c.running.Wait() })
	return c
}

func (c *pausableProxy) accept() {
	for {
		here, err := c.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", c.target)
		if err != nil {
			_ = here.Close()
			continue
		}
		c.running.Go(func() { c.copyBytes(here, there) })
		c.running.Go(func() { c.copyBytes(there, here) })
	}
}

func (c *pausableProxy) copyBytes(from, to net.Conn) {
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
	l := newTestCluster(t, 1)
	m := l.members[0]
	m.server.timing = defaultTiming
	api := l.listen(l.credentials(pki.Controller, m.name).Server(pki.Node), m.registerSession) // with ServerOptions alone
	proxy := newPausableProxy(t, api.addr)
	n := l.newHost("n1", proxy.listener.Addr().String())
	n.client.timing = defaultTiming
	n.run(t)
	eventually(t, "the session is up", func() bool { return n.client.Connected() && m.server.Sessions() == 1 })
	proxy.mu.Lock()
	resume := sync.OnceFunc(proxy.mu.Unlock)
	defer resume()
	pausedAt := time.Now()
	eventually(t, "both ends noticed", func() bool { return !n.client.Connected() && m.server.Sessions() == 0 })
	require.Less(t, time.Since(pausedAt), PeerTimeout+time.Minute)
	resume()
	eventually(t, "the session is up again", n.client.Connected)
}
