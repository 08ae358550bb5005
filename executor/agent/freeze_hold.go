package agent

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// freezeHold keeps a volume unchanged for one attempt of a group snapshot (S19): frozen when
// it is mounted, and in any case neither brought up nor taken down.
type freezeHold struct {
	plan.FreezeState
	volume *volume
	freeze executor.Freeze // nil: nothing can write to the volume
}

// known is what plan needs to know of the hold, nil without one.
func (h *freezeHold) known() *plan.FreezeState {
	if h == nil {
		return nil
	}
	return &h.FreezeState
}

// lockSource locks the source of a snapshot; when it is locked already, requeue is called once
// it is free. Calls for the volume are Busy meanwhile.
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

// unlockSource unlocks the volume, or leaves it under the hold.
func (t *table) unlockSource(v *volume, h *freezeHold) {
	t.mu.Lock()
	v.snapshotting, v.freezeHold = false, h
	v.requeue = true // it may have no desired state any more
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

// wakeWaiters calls the snapshots that wait for the volume. The caller holds table.mu.
func (v *volume) wakeWaiters() {
	for _, name := range sortedKeys(v.waiters) {
		requeue := v.waiters[name]
		delete(v.waiters, name)
		requeue()
	}
}

// checkNotSnapshotting refuses what must not be done to a volume while a snapshot of it is
// taken. The caller holds table.mu.
func (v *volume) checkNotSnapshotting() error {
	if v.snapshotting || v.freezeHold != nil {
		return fsm.Reject(fsm.Busy, "volume %s: a snapshot of it is being taken", v.id)
	}
	return nil
}

// releaseHolds ends all holds when the process stops. The freezes would end at their
// deadlines anyway, but then writers would wait for that.
func (f *sourceFreezer) releaseHolds(ctx context.Context) error {
	f.mu.Lock()
	var holds []*freezeHold
	for _, id := range sortedKeys(f.volumes) {
		v := f.volumes[id]
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
