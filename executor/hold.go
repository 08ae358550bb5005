package executor

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// errLater says that somebody else works on the volume: whoever wants to cut it is
// told when he is done.
var errLater = errors.New("the volume is being worked on")

// hold keeps a volume as it is for a group's attempt (S19): frozen when it is
// mounted, and neither brought up nor taken down in any case.
type hold struct {
	volume  *volume
	attempt uint32
	freeze  Freeze    // nil: nothing of the volume can be written to
	until   time.Time // when the freeze ends by itself; zero without one
}

// alive tells whether the hold was never interrupted until now.
func (h *hold) alive(now time.Time) bool {
	return h != nil && (h.until.IsZero() || now.Before(h.until))
}

// lockSource takes the lock of a volume that is to be cut, or has again called when it
// is free. Calls for the volume are Busy meanwhile.
func (e *Executor) lockSource(id fsm.VolumeID, waiter string, again func()) (*volume, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.volume(id)
	if v.parked == nil && v.held == nil {
		select {
		case v.lock <- struct{}{}:
			v.cut = true
			return v, true
		default:
		}
	}
	if v.waiters == nil {
		v.waiters = map[string]func(){}
	}
	v.waiters[waiter] = again
	return nil, false
}

// unlockSource frees the volume, or leaves it held.
func (e *Executor) unlockSource(v *volume, h *hold) {
	e.mu.Lock()
	v.cut, v.held = false, h
	v.again = true // it may be one that nothing is wanted of
	e.mu.Unlock()
	e.unlock(v)
}

// release ends a hold; the freeze first.
func (e *Executor) release(ctx context.Context, h *hold) error {
	if h.freeze != nil {
		if err := h.freeze.Thaw(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if h.volume.held == h {
		h.volume.held = nil
	}
	e.queue.add(h.volume.id)
	h.volume.wake()
	return nil
}

// wake calls whoever waits for the volume. The caller holds mu.
func (v *volume) wake() {
	for name, again := range v.waiters {
		delete(v.waiters, name)
		again()
	}
}

// isCut refuses what must not be done to a volume that is being cut. The caller
// holds mu.
func (v *volume) isCut() error {
	if v.cut || v.held != nil {
		return fsm.Reject(fsm.Busy, "volume %s is just being cut for a snapshot", v.id)
	}
	return nil
}

// releaseAll ends all holds, for a process that stops: its leases would end by
// themselves, but nobody need wait for that.
func (e *Executor) releaseAll(ctx context.Context) error {
	e.mu.Lock()
	var held []*hold
	for _, v := range e.volumes {
		if v.held != nil {
			held = append(held, v.held)
		}
	}
	e.mu.Unlock()
	var errs []error
	for _, h := range held {
		errs = append(errs, e.release(ctx, h))
	}
	return errors.Join(errs...)
}
