package executor

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// callLimit bounds one call's work, which goes on when its caller is gone.
const callLimit = 10 * time.Minute

// call is the work of one CSI call on a volume. There is one at a time (S121).
type call struct {
	key     string // what was asked: a retry of the same may join
	done    chan struct{}
	err     error         // valid after done
	waited  bool          // somebody waits for it; guarded by Executor.mu
	asking  atomic.Int32  // it waits for the quorum
	patient time.Duration // how long its caller would wait for what is not needed
}

// serve runs work on a volume under its lock and waits for it. When ctx is about to
// end the caller is told Busy, while the work goes on; a caller who asks the same
// again waits for it. Anybody else is Busy (S121).
func (e *Executor) serve(ctx context.Context, id fsm.VolumeID, key string, work func(context.Context, *volume, *call) error) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "volume %q is not known", string(id))
	}
	c, err := e.begin(ctx, id, key, work)
	if err != nil {
		return err
	}
	patience, stop := beforeDeadline(ctx)
	defer stop()
	select {
	case <-c.done:
		return c.err
	case <-patience:
	case <-ctx.Done():
	}
	return e.leave(id, c)
}

// begin starts the work, or joins what goes on without a caller.
func (e *Executor) begin(ctx context.Context, id fsm.VolumeID, key string, work func(context.Context, *volume, *call) error) (*call, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil, &unavailable{errors.New("this node is stopping")}
	}
	v := e.volume(id)
	if err := v.isSetAside(); err != nil {
		return nil, err
	}
	if c := v.call; c != nil {
		if c.waited || c.key != key {
			return nil, fsm.Reject(fsm.Busy, "volume %s: another call is under way", id)
		}
		c.waited = true
		return c, nil
	}
	c := &call{key: key, done: make(chan struct{}), waited: true, patient: time.Hour}
	if deadline, ok := ctx.Deadline(); ok {
		c.patient = time.Until(deadline) - margin(time.Until(deadline))
	}
	v.call = c
	e.work.Go(func() { e.run(v, c, work) })
	return c, nil
}

func (e *Executor) run(v *volume, c *call, work func(context.Context, *volume, *call) error) {
	ctx, cancel := context.WithTimeout(e.ctx, callLimit)
	defer cancel()
	select {
	case v.lock <- struct{}{}:
	case <-ctx.Done():
		e.finish(v, c, &unavailable{errors.New("this node is stopping")})
		return
	}
	e.mu.Lock()
	err := v.isSetAside() // by whoever had the lock before
	e.mu.Unlock()
	if err == nil {
		err = e.open(v)
	}
	if err == nil {
		err = work(ctx, v, c)
	}
	if err != nil {
		e.park(v, err)
	}
	e.mu.Lock()
	v.again = true // what the call left is looked at, and told
	e.mu.Unlock()
	e.finish(v, c, err)
	e.unlock(v)
}

// isSetAside refuses what must not be done to a volume now. The caller holds mu.
func (v *volume) isSetAside() error {
	if v.parked != nil {
		return fsm.Reject(fsm.Busy, "volume %s: a command on its device cannot be killed; wait until it ends", v.id)
	}
	return v.isCut()
}

func (e *Executor) finish(v *volume, c *call, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.err, v.call = err, nil
	close(c.done)
}

// leave is for a caller whose time is up. Without a quorum that is what he is
// told, also near a deadline (S28).
func (e *Executor) leave(id fsm.VolumeID, c *call) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	default:
	}
	c.waited = false
	if c.asking.Load() > 0 {
		return &unavailable{errors.New("no controller answered for volume " + string(id) + " in time")}
	}
	return fsm.Reject(fsm.Busy, "volume %s: the work goes on; ask again", id)
}

// margin is how long before a deadline the caller is answered.
func margin(left time.Duration) time.Duration {
	return min(max(left/10, 20*time.Millisecond), 500*time.Millisecond)
}

// beforeDeadline fires a little before ctx does, never without a deadline.
func beforeDeadline(ctx context.Context) (<-chan time.Time, func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil, func() {}
	}
	left := time.Until(deadline)
	timer := time.NewTimer(left - margin(left))
	return timer.C, func() { timer.Stop() }
}
