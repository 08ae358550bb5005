package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// callTimeout bounds the work of one call, which continues when its caller is gone.
const callTimeout = 10 * time.Minute

// call is the work of one CSI call on a volume, one at a time for each volume (S121).
type call struct {
	key          string // what is asked: a retry with an equal key may join
	done         chan struct{}
	err          error         // valid after done
	hasWaiter    bool          // a caller waits for it; guarded by table.mu
	proposing    atomic.Int32  // how many of its proposals wait for a quorum
	optionalWait time.Duration // how long its caller would wait for what is not needed
	otherRefused bool          // another call was refused because of this one; guarded by table.mu
}

// serveCall runs work on a volume under the volume's lock and waits for it. Shortly before ctx
// ends it returns Busy, and the work continues: a retry with the same key waits for that work,
// any other call is Busy (S121).
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

// beginCall starts the work, or joins work that continues without a caller.
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
			c.otherRefused = c.otherRefused || c.key != key
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
	err := v.checkFree() // the previous holder of the lock may have parked or frozen it
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
	v.requeue = true // observe and report what the call left
	cs.mu.Unlock()
	cs.finishCall(v, c, err)
	cs.unlock(v)
}

// checkFree refuses what must not be done to a volume now. The caller holds table.mu.
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

// leaveCall is what a caller is told whose time is up: that there is no quorum when the work
// waits for one, even near a deadline (S28), else Busy.
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

// deadlineMargin is how long before its deadline a call is answered.
func deadlineMargin(left time.Duration) time.Duration {
	return min(max(left/10, 20*time.Millisecond), 500*time.Millisecond)
}

// beforeDeadline returns a channel that fires shortly before ctx ends, never without a deadline.
func beforeDeadline(ctx context.Context) (<-chan time.Time, func()) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil, func() {}
	}
	left := time.Until(deadline)
	timer := time.NewTimer(left - deadlineMargin(left))
	return timer.C, func() { timer.Stop() }
}
