package raftsim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"
)

// network connects members by their addresses. A connection is a TCP connection as its ends see it: bytes
// arrive in order, late, or not before the network lets them; nothing is written that blocks.
type network struct {
	mu        sync.Mutex
	rand      *rand.Rand
	listeners map[string]*listener
	conns     map[*conn]bool // the dialing ends
	// blocked tells whether nothing gets from one address to another now.
	blocked map[[2]string]bool
	delay   time.Duration               // at most, of each write
	rates   map[[2]string]int           // bytes a second of a slow link
	frozen  map[string]bool             // members that stand still
	large   map[[2]string]chan struct{} // told of a large write on the link
	changed chan struct{}               // closed when what is blocked has changed
	again   float64                     // share of Raft's messages that arrive twice
	repeats int                         // how many did
}

func newNetwork(seed uint64) *network {
	return &network{
		rand: rand.New(rand.NewPCG(seed, 2)), listeners: map[string]*listener{}, conns: map[*conn]bool{},
		blocked: map[[2]string]bool{}, rates: map[[2]string]int{}, frozen: map[string]bool{}, large: map[[2]string]chan struct{}{},
		changed: make(chan struct{}), delay: time.Millisecond,
	}
}

// listener is where a member accepts.
type listener struct {
	network  *network
	addr     address
	accepted chan net.Conn
	once     sync.Once
	done     chan struct{}
}

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// listen takes an address, from a process that ended if need be.
func (n *network) listen(addr string) *listener {
	l := &listener{network: n, addr: address(addr), accepted: make(chan net.Conn, 64), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[addr] = l
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	if l.network.listeners[string(l.addr)] == l {
		delete(l.network.listeners, string(l.addr))
	}
	return nil
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.addr }

// dialer dials for the process at an address, until gone is closed.
func (n *network) dialer(from string, gone <-chan struct{}) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, to string) (net.Conn, error) {
		for {
			n.mu.Lock()
			l, passes, changed := n.listeners[to], n.passes(from, to) && n.passes(to, from), n.changed
			n.mu.Unlock()
			select {
			case <-gone:
				return nil, net.ErrClosed
			default:
			}
			if passes && l == nil {
				return nil, fmt.Errorf("dial %s: connection refused", to)
			}
			if passes {
				return n.connect(ctx, from, l)
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

func (n *network) connect(ctx context.Context, from string, l *listener) (net.Conn, error) {
	near, far := newConn(n, from, string(l.addr)), newConn(n, string(l.addr), from)
	near.peer, far.peer = far, near
	select {
	case l.accepted <- far:
	case <-l.done:
		return nil, fmt.Errorf("dial %s: connection refused", l.addr)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns[near] = true
	return near, nil
}

// passes tells whether bytes get from one address to another; the lock is held.
func (n *network) passes(from, to string) bool {
	return !n.blocked[[2]string{from, to}] && !n.frozen[from] && !n.frozen[to]
}

// change changes what is blocked, and has every reader look again.
func (n *network) change(fn func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	fn()
	close(n.changed)
	n.changed = make(chan struct{})
}

// reset ends connections as a reset does, those that match.
func (n *network) reset(matches func(from, to string) bool) (count int) {
	n.mu.Lock()
	var ended []*conn
	for c := range n.conns {
		if matches(c.from, c.to) {
			ended = append(ended, c)
		}
	}
	n.mu.Unlock()
	for _, c := range ended {
		c.abort(errReset)
		c.peer.abort(errReset)
	}
	return len(ended)
}

// arrival is when a write at now arrives on a link; the lock is held.
func (n *network) arrival(from, to string, size int, last, now time.Time) time.Time {
	at := now
	if n.delay > 0 {
		at = at.Add(time.Duration(n.rand.Int64N(int64(n.delay))))
	}
	if rate := n.rates[[2]string{from, to}]; rate > 0 {
		if last.After(at) {
			at = last
		}
		at = at.Add(time.Duration(size) * time.Second / time.Duration(rate))
	}
	if last.After(at) {
		return last
	}
	return at
}

var errReset = fmt.Errorf("connection reset by peer")

// conn is one end of a connection.
type conn struct {
	network  *network
	from, to string // this end's address first
	peer     *conn

	mu       sync.Mutex
	inbox    []chunk
	last     time.Time // when the newest chunk arrives
	err      error     // of every call, once the connection has ended
	eof      bool      // the peer has closed: after the inbox nothing comes
	deadline time.Time
	wake     chan struct{}
}

type chunk struct {
	data []byte
	at   time.Time
}

func newConn(n *network, from, to string) *conn {
	return &conn{network: n, from: from, to: to, wake: make(chan struct{}, 1)}
}

func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Read implements net.Conn, for one reader at a time.
func (c *conn) Read(b []byte) (int, error) {
	for {
		c.network.mu.Lock()
		passes, changed := c.network.passes(c.to, c.from), c.network.changed
		c.network.mu.Unlock()
		n, wait, err := c.take(b, passes)
		if n > 0 || err != nil {
			return n, err
		}
		c.await(changed, wait)
	}
}

// await waits for something to read, at most so long; zero is for ever.
func (c *conn) await(changed <-chan struct{}, wait time.Duration) {
	var late <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-c.wake:
	case <-changed:
	case <-late:
	}
}

// take reads what has arrived, or tells how long to wait for it.
func (c *conn) take(b []byte, passes bool) (n int, wait time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	switch {
	case c.err != nil:
		return 0, 0, c.err
	case !c.deadline.IsZero() && !now.Before(c.deadline):
		return 0, 0, os.ErrDeadlineExceeded
	case passes && len(c.inbox) > 0 && !c.inbox[0].at.After(now):
		n = copy(b, c.inbox[0].data)
		if c.inbox[0].data = c.inbox[0].data[n:]; len(c.inbox[0].data) == 0 {
			c.inbox = c.inbox[1:]
		}
		return n, 0, nil
	case passes && len(c.inbox) > 0:
		wait = c.inbox[0].at.Sub(now)
	case passes && c.eof:
		return 0, 0, io.EOF
	}
	if !c.deadline.IsZero() && (wait == 0 || c.deadline.Sub(now) < wait) {
		wait = c.deadline.Sub(now)
	}
	return 0, wait, nil
}

// Write implements net.Conn. It never blocks.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	err := c.err
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	c.peer.receive(append([]byte(nil), b...))
	return len(b), nil
}

// receive takes what the peer wrote.
func (c *conn) receive(data []byte) {
	n := c.network
	n.mu.Lock()
	if told := n.large[[2]string{c.to, c.from}]; told != nil && len(data) >= largeWrite {
		select {
		case told <- struct{}{}:
		default:
		}
	}
	c.mu.Lock()
	c.last = n.arrival(c.to, c.from, len(data), c.last, time.Now())
	c.inbox = append(c.inbox, chunk{data, c.last})
	c.mu.Unlock()
	n.mu.Unlock()
	c.signal()
}

// largeWrite is more than any message of Raft but a Raft snapshot is written in, in bytes.
const largeWrite = 8 << 10

// abort ends this end with an error.
func (c *conn) abort(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.signal()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.abort(net.ErrClosed)
	c.peer.mu.Lock()
	c.peer.eof = true
	c.peer.mu.Unlock()
	c.peer.signal()
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	delete(c.network.conns, c)
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return address(c.from) }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return address(c.to) }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	c.signal()
	return nil
}

// SetWriteDeadline implements net.Conn: writes do not wait.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// disconnect ends every connection of a process that died.
func (n *network) disconnect(addr string) {
	n.mu.Lock()
	l := n.listeners[addr]
	n.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	n.reset(func(from, to string) bool { return from == addr || to == addr })
}

// repeat decides whether a message of Raft arrives again.
func (n *network) repeat() (bool, time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rand.Float64() >= n.again {
		return false, 0
	}
	n.repeats++
	return true, time.Duration(n.rand.Int64N(int64(3 * time.Second)))
}

// repeated is how many messages of Raft arrived again.
func (n *network) repeated() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.repeats
}
