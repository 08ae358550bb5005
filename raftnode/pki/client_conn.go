package pki

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// renewTimeout is how long the connection that takes another one's place may take.
const renewTimeout = 5 * time.Second

// ClientConn is a gRPC connection to one endpoint that is made again before the certificates under which it
// was made lose their worth: the new one is connected first, new calls go there, and the old one is closed when its
// calls have ended. A call that does not end has the old one until its peer's certificate expires.
type ClientConn struct {
	dial func(renew func()) (*grpc.ClientConn, error)

	mu       sync.Mutex
	current  *countedConn
	renewing bool
	closed   bool
	old      map[*countedConn]struct{}
}

// countedConn counts the calls on one connection; under ClientConn.mu.
type countedConn struct {
	*grpc.ClientConn
	calls   int
	renewed chan struct{} // closed when another one took its place
}

// NewClientConn prepares a connection. dial makes one with ClientCredentials, or with what calls Dialed, and
// hands on the function that it is given.
func NewClientConn(dial func(renew func()) (*grpc.ClientConn, error)) (*ClientConn, error) {
	c := &ClientConn{dial: dial, old: map[*countedConn]struct{}{}}
	first, err := c.dialCounted()
	if err != nil {
		return nil, err
	}
	c.current = first
	return c, nil
}

func (c *ClientConn) dialCounted() (k *countedConn, err error) {
	k = &countedConn{renewed: make(chan struct{})}
	k.ClientConn, err = c.dial(func() { c.renew(k) })
	return k, err
}

// renew makes a connection again, in the background, unless another one took its place already: it may go on
// with its calls. If that fails the one that there is stays.
func (c *ClientConn) renew(k *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current == k && !c.renewing && !c.closed {
		c.renewing = true
		go c.replace()
	}
}

// replace connects first.
func (c *ClientConn) replace() {
	fresh, err := c.dialCounted()
	if err == nil && !becomesReady(fresh.ClientConn) {
		err = errors.Join(errNotReady, fresh.Close())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renewing = false
	switch {
	case err != nil:
	case c.closed:
		_ = fresh.Close()
	default:
		was := c.current
		c.current = fresh
		c.old[was] = struct{}{}
		close(was.renewed)
		c.closeUnused(was)
	}
}

var errNotReady = errors.New("not connected in time")

func becomesReady(conn *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
	defer cancel()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
	return true
}

// closeUnused closes a connection that another one replaced, once it has no calls.
func (c *ClientConn) closeUnused(k *countedConn) {
	if _, replaced := c.old[k]; replaced && k.calls == 0 {
		delete(c.old, k)
		go func() { _ = k.Close() }() // not inside of the end of a call of its own
	}
}

func (c *ClientConn) begin() *countedConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.calls++
	return c.current
}

func (c *ClientConn) end(k *countedConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.calls--
	c.closeUnused(k)
}

func (c *ClientConn) now() *countedConn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Invoke implements grpc.ClientConnInterface.
func (c *ClientConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	k := c.begin()
	defer c.end(k)
	return k.Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements grpc.ClientConnInterface.
func (c *ClientConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	k := c.begin()
	var once sync.Once
	ended := func() { once.Do(func() { c.end(k) }) }
	stream, err := k.NewStream(ctx, desc, method, append(opts, grpc.OnFinish(func(error) { ended() }))...)
	if err != nil {
		ended()
		return nil, err
	}
	return stream, nil
}

// Renewed is closed when another connection took the place of the one that calls are made on now: a stream
// that does not end by itself should be made again.
func (c *ClientConn) Renewed() <-chan struct{} { return c.now().renewed }

// Connect is grpc.ClientConn's.
func (c *ClientConn) Connect() { c.now().Connect() }

// ResetConnectBackoff is grpc.ClientConn's.
func (c *ClientConn) ResetConnectBackoff() { c.now().ResetConnectBackoff() }

// GetState is grpc.ClientConn's.
func (c *ClientConn) GetState() connectivity.State { return c.now().GetState() }

// WaitForStateChange is grpc.ClientConn's. A connection that is replaced counts as changed.
func (c *ClientConn) WaitForStateChange(ctx context.Context, source connectivity.State) bool {
	k := c.now()
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-k.renewed:
			cancel()
		case <-waiting.Done():
		}
	}()
	return k.WaitForStateChange(waiting, source) || ctx.Err() == nil
}

// Close ends all of its connections.
func (c *ClientConn) Close() error {
	c.mu.Lock()
	c.closed = true
	all := []*countedConn{c.current}
	for k := range c.old {
		all = append(all, k)
	}
	clear(c.old)
	c.mu.Unlock()
	var errs []error
	for _, k := range all {
		errs = append(errs, k.Close())
	}
	return errors.Join(errs...)
}
