package agent

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// freezeHold keeps a volume as it is for a group's attempt (S19): frozen when it is
// mounted, and neither brought up nor taken down in any case.
type freezeHold struct {
	plan.FreezeState
	volume *volume
	freeze executor.Freeze // nil: nothing of the volume can be written to
}

// state is what a choice needs to know of the hold, nil of none.
func (h *freezeHold) known() *plan.FreezeState {
	if h == nil {
		return nil
	}
	return &h.FreezeState
}

// lockSource takes the lock of a volume that is to be cut, or has again called when it
// is free. Calls for the volume are Busy meanwhile.
func (t *table) lockSource(id fsm.VolumeID, waiter string, requeue func()) (*volume, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.volumeEntry(id)
	if v.parked == nil && v.freezeHold == nil {
		select {
		case v.lock <- struct{}{}:
			v.snapshotting = true
			return v, true
		default:
		}
	}
	if v.waiters == nil {
		v.waiters = map[string]func(){}
	}
	v.waiters[waiter] = requeue
	return nil, false
}

// unlockSource frees the volume, or leaves it held.
func (t *table) unlockSource(v *volume, h *freezeHold) {
	t.mu.Lock()
	v.snapshotting, v.freezeHold = false, h
	v.requeue = true // it may be one that nothing is wanted of
	t.mu.Unlock()
	t.unlock(v)
}

// releaseHold ends a hold; the freeze first.
func (f *sourceFreezer) releaseHold(ctx context.Context, h *freezeHold) error {
	if h.freeze != nil {
		if err := h.freeze.Thaw(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if h.volume.freezeHold == h {
		h.volume.freezeHold = nil
	}
	f.volumeQueue.add(h.volume.id)
	h.volume.wakeWaiters()
	return nil
}

// wakeWaiters calls whoever waits for the volume. The caller holds mu.
func (v *volume) wakeWaiters() {
	for name, requeue := range v.waiters {
		delete(v.waiters, name)
		requeue()
	}
}

// isCut refuses what must not be done to a volume that is being cut. The caller
// holds mu.
func (v *volume) checkNotSnapshotting() error {
	if v.snapshotting || v.freezeHold != nil {
		return fsm.Reject(fsm.Busy, "volume %s is just being cut for a snapshot", v.id)
	}
	return nil
}

// releaseHolds ends all holds, for a process that stops: its leases would end by
// themselves, but nobody need wait for that.
func (f *sourceFreezer) releaseHolds(ctx context.Context) error {
	f.mu.Lock()
	var holds []*freezeHold
	for _, v := range f.volumes {
		if v.freezeHold != nil {
			holds = append(holds, v.freezeHold)
		}
	}
	f.mu.Unlock()
	var errs []error
	for _, h := range holds {
		errs = append(errs, f.releaseHold(ctx, h))
	}
	return errors.Join(errs...)
}
