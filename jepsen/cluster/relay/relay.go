package relay

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Config says between whom a relay is.
type Config struct {
	Listener net.Listener
	// Destination is where an accepted connection was meant to go.
	Destination func(*net.TCPConn) (string, error)
	Dial        func(ctx context.Context, address string) (net.Conn, error)
	Seed        uint64
}

// Relay passes connections on until it is closed.
type Relay struct {
	Config
	dice    *dice
	weather atomic.Pointer[forecast]
	count   Count

	mu    sync.Mutex
	conns map[net.Conn]bool
	ended bool
	work  sync.WaitGroup
}

// Count is what a relay has done, so that a run can prove it.
type Count struct {
	Connections, Pieces, Resets, Duplicates atomic.Int64
	Waited                                  atomic.Int64 // nanoseconds
}

// Start starts a relay in fair weather.
func Start(cfg Config) *Relay {
	r := &Relay{Config: cfg, dice: newDice(cfg.Seed), conns: map[net.Conn]bool{}}
	r.Set(Weather{})
	r.work.Go(r.accept)
	return r
}

// forecast is a weather and its end.
type forecast struct {
	Weather
	over chan struct{}
}

// Set changes the weather, also for open connections: what waited in the earlier one does so no longer.
func (r *Relay) Set(w Weather) {
	if before := r.weather.Swap(&forecast{w, make(chan struct{})}); before != nil {
		close(before.over)
	}
}

// Count is what the relay has done so far.
func (r *Relay) Count() *Count { return &r.count }

// Close ends the relay and all its connections.
func (r *Relay) Close() {
	_ = r.Listener.Close() // it only accepts
	r.Set(Weather{})       // nothing waits any longer
	r.mu.Lock()
	r.ended = true
	for conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.work.Wait()
}

func (r *Relay) accept() {
	for {
		conn, err := r.Listener.Accept()
		if err != nil {
			return // closed
		}
		r.work.Go(func() { r.pass(conn) })
	}
}

// hold has Close close a connection, or closes it when that was before.
func (r *Relay) hold(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		_ = conn.Close()
		return false
	}
	r.conns[conn] = true
	return true
}

func (r *Relay) release(conn net.Conn) {
	_ = conn.Close() // both directions ended
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, conn)
}

// dialTimeout is how long a destination may take to answer; the caller waits meanwhile as for a slow network.
const dialTimeout = 30 * time.Second

// pass passes one connection on until it ends.
func (r *Relay) pass(from net.Conn) {
	if !r.hold(from) {
		return
	}
	defer r.release(from)
	r.count.Connections.Add(1)
	address, err := r.Destination(from.(*net.TCPConn))
	if err != nil {
		return
	}
	to, ok := r.reach(address)
	if !ok {
		reset(from)
		return
	}
	defer r.release(to)
	out, endTwin := r.withTwin(to, address)
	defer endTwin()
	var both sync.WaitGroup
	both.Go(func() { r.carry(from, to, out) })
	both.Go(func() { r.carry(to, from, from) })
	both.Wait()
}

// withTwin opens the second connection when the weather has it; what is written arrives on both.
func (r *Relay) withTwin(to net.Conn, address string) (out io.Writer, end func()) {
	if !r.weather.Load().Duplicate {
		return to, func() {}
	}
	twin, ok := r.reach(address)
	if !ok {
		return to, func() {}
	}
	r.count.Duplicates.Add(1)
	r.work.Go(func() { _, _ = io.Copy(io.Discard, twin) })
	return io.MultiWriter(to, besideIt{twin}), func() { r.release(twin) }
}

func (r *Relay) reach(address string) (net.Conn, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	conn, err := r.Dial(ctx, address)
	return conn, err == nil && r.hold(conn)
}

// besideIt is a writer whose failures nobody minds.
type besideIt struct{ net.Conn }

func (b besideIt) Write(p []byte) (int, error) {
	_, _ = b.Conn.Write(p)
	return len(p), nil
}

// piece is some data and when it arrives: when it is due, or at the end of the weather that made it late.
type piece struct {
	data []byte
	due  time.Time
	over <-chan struct{}
}

// queued is how many pieces are under way at once in one direction.
const queued = 64

// carry copies one direction. Pieces are read while earlier ones are under way: latency does not make a link slow.
func (r *Relay) carry(from, to net.Conn, out io.Writer) {
	under := make(chan piece, queued)
	var deliver sync.WaitGroup
	deliver.Go(func() { r.deliver(under, from, to, out) })
	var last piece
	for buffer := make([]byte, 16<<10); ; {
		n, err := from.Read(buffer)
		if n > 0 {
			last = r.pieceAfter(last, buffer[:n], from, to)
			under <- last
		}
		if err != nil {
			break
		}
	}
	close(under)
	deliver.Wait()
	endWriting(to)
}

// pieceAfter waits until the link has taken a piece, and chooses when it arrives: not before the one before it in the same
// weather. It may reset the connection instead.
func (r *Relay) pieceAfter(last piece, data []byte, from, to net.Conn) piece {
	now := r.weather.Load()
	f := r.dice.fateOf(now.Weather, len(data))
	r.count.Pieces.Add(1)
	r.count.Waited.Add(int64(f.pace + f.wait))
	if f.reset {
		r.count.Resets.Add(1)
		reset(from)
		reset(to)
	}
	waitFor(f.pace, now.over)
	p := piece{append([]byte(nil), data...), time.Now().Add(f.wait), now.over}
	if last.over == p.over && last.due.After(p.due) {
		p.due = last.due // TCP keeps the order
	}
	return p
}

// deliver writes pieces in their order when they are due.
func (r *Relay) deliver(under <-chan piece, from, to net.Conn, out io.Writer) {
	failed := false
	for p := range under {
		if failed {
			continue
		}
		waitFor(time.Until(p.due), p.over)
		if _, err := out.Write(p.data); err != nil {
			failed = true
			_ = from.Close() // ends the reading
			_ = to.Close()
		}
	}
}

// waitFor waits, or until the weather is over.
func waitFor(d time.Duration, over <-chan struct{}) {
	if d <= 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-over:
	}
}

// reset ends a connection with a reset.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it may have ended
	}
	_ = conn.Close()
}

// endWriting tells the other end that nothing more comes.
func endWriting(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // it may have ended
	}
}
