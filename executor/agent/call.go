package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// callTimeout bounds one call's work, which goes on when its caller is gone.
const callTimeout = 10 * time.Minute

// call is the work of one CSI call on a volume. There is one at a time (S121).
type call struct {
	key          string // what was asked: a retry of the same may join
	done         chan struct{}
	err          error         // valid after done
	hasWaiter    bool          // somebody waits for it; guarded by table.mu
	proposing    atomic.Int32  // it waits for the quorum
	optionalWait time.Duration // how long its caller would wait for what is not needed
}

// serveCall runs work on a volume under its lock and waits for it. When ctx is about to
// end the caller is told Busy, while the work goes on; a caller who asks the same
// again waits for it. Anybody else is Busy (S121).
func (cs *calls) serveCall(ctx context.Context, id fsm.VolumeID, key string, work func(context.Context, *volume, *call) error) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "volume %q is not known", string(id))
	}
	c, err := cs.beginCall(ctx, id, key, work)
	if err != nil {
		return err
	}
	expiring, stop := beforeDeadline(ctx)
	defer stop()
	select {
	case <-c.done:
		return c.err
	case <-expiring:
	case <-ctx.Done():
	}
	return cs.leaveCall(id, c)
}

// begin starts the work, or joins what goes on without a caller.
func (cs *calls) beginCall(ctx context.Context, id fsm.VolumeID, key string, work func(context.Context, *volume, *call) error) (*call, error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.closed {
		return nil, &unavailable{errors.New("this node is stopping")}
	}
	v := cs.volumeEntry(id)
	if err := v.checkFree(); err != nil {
		return nil, err
	}
	if c := v.call; c != nil {
		if c.hasWaiter || c.key != key {
			return nil, fsm.Reject(fsm.Busy, "volume %s: another call is under way", id)
		}
		c.hasWaiter = true
		return c, nil
	}
	c := &call{key: key, done: make(chan struct{}), hasWaiter: true, optionalWait: time.Hour}
	if deadline, ok := ctx.Deadline(); ok {
		c.optionalWait = time.Until(deadline) - deadlineMargin(time.Until(deadline))
	}
	v.call = c
	cs.wg.Go(func() { cs.runCall(v, c, work) })
	return c, nil
}

func (cs *calls) runCall(v *volume, c *call, work func(context.Context, *volume, *call) error) {
	ctx, cancel := context.WithTimeout(cs.ctx, callTimeout)
	defer cancel()
	select {
	case v.lock <- struct{}{}:
	case <-ctx.Done():
		cs.finishCall(v, c, &unavailable{errors.New("this node is stopping")})
		return
	}
	cs.mu.Lock()
	err := v.checkFree() // by whoever had the lock before
	cs.mu.Unlock()
	if err == nil {
		err = cs.records.openRecord(v)
	}
	if err == nil {
		err = work(ctx, v, c)
	}
	if err != nil {
		cs.parkVolume(v, err)
	}
	cs.mu.Lock()
	v.requeue = true // what the call left is looked at, and told
	cs.mu.Unlock()
	cs.finishCall(v, c, err)
	cs.unlock(v)
}

// checkFree refuses what must not be done to a volume now. The caller holds mu.
func (v *volume) checkFree() error {
	if v.parked != nil {
		return fsm.Reject(fsm.Busy, "volume %s: a command on its device cannot be killed; wait until it ends", v.id)
	}
	return v.checkNotSnapshotting()
}

func (cs *calls) finishCall(v *volume, c *call, err error) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	c.err, v.call = err, nil
	close(c.done)
}

// leaveCall is for a caller whose time is up. Without a quorum that is what he is
// told, also near a deadline (S28).
func (cs *calls) leaveCall(id fsm.VolumeID, c *call) error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	default:
	}
	c.hasWaiter = false
	if c.proposing.Load() > 0 {
		return &unavailable{errors.New("no controller answered for volume " + string(id) + " in time")}
	}
	return fsm.Reject(fsm.Busy, "volume %s: the work goes on; ask again", id)
}

// deadlineMargin is how long before a deadline the caller is answered.
func deadlineMargin(left time.Duration) time.Duration {
	return min(max(left/10, 20*time.Millisecond), 500*time.Millisecond)
}

// beforeDeadline fires a little before ctx does, never without a deadline.
func beforeDeadline(ctx context.Context) (<-chan time.Time, func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil, func() {}
	}
	left := time.Until(deadline)
	timer := time.NewTimer(left - deadlineMargin(left))
	return timer.C, func() { timer.Stop() }
}
