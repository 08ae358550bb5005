package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// lockSnapshotSource locks the snapshot's source, or returns errRequeued.
func (sw *snapshotWorker) lockSnapshotSource(snap *snapshotState, d *fsm.DesiredSnapshot) (*volume, error) {
	v, ok := sw.lockSource(d.Source, string(snap.id), func() { sw.snapshotQueue.add(snap.id) })
	if !ok {
		return nil, errRequeued
	}
	return v, nil
}

// freezeMember freezes a member of a group snapshot and keeps it so. The record is written first:
// another process that finds it knows that this attempt had its freeze.
func (sw *snapshotWorker) freezeMember(ctx context.Context, snap *snapshotState, d *fsm.DesiredSnapshot) error {
	v, err := sw.lockSnapshotSource(snap, d)
	if err != nil {
		return err
	}
	h, err := sw.holdSource(ctx, snap, v, d)
	snap.freezeHold = h
	sw.unlockSource(v, h)
	if err == nil && !h.Until.IsZero() {
		sw.snapshotQueue.addAfter(snap.id, time.Until(h.Until)+time.Millisecond)
	}
	return err
}

func (sw *snapshotWorker) holdSource(ctx context.Context, snap *snapshotState, v *volume, d *fsm.DesiredSnapshot) (*freezeHold, error) {
	s, _, err := sw.observer.observeSource(ctx, v, true)
	if err != nil {
		return nil, err
	}
	if rej := s.Refusal(v.id); rej != nil {
		return nil, rej
	}
	if err := sw.records.saveSnapshotRecord(snap, records.SnapshotRecord{Phase: records.PhaseBegun, Attempt: d.Attempt}); err != nil {
		return nil, err
	}
	h := &freezeHold{FreezeState: plan.FreezeState{Attempt: d.Attempt}, volume: v}
	if s.MountPath == "" || plantedbug.Is(plantedbug.GroupTwoInstants) {
		return h, nil
	}
	h.Until = time.Now().Add(sw.MaxFreeze)
	if h.freeze, err = sw.freezer.freeze(ctx, v, s); err != nil {
		return nil, err
	}
	return h, nil
}

// takeUnderHold takes the snapshot of a group's member under the freeze that was reported, and
// no other.
func (sw *snapshotWorker) takeUnderHold(ctx context.Context, snap *snapshotState, d *fsm.DesiredSnapshot, backend executor.SnapshotBackend) error {
	h := snap.freezeHold
	taken := records.SnapshotRecord{Phase: records.PhaseTaken, Attempt: d.Attempt}
	take := func(ctx context.Context) error { return sw.takeNow(ctx, snap, d, backend, &taken) }
	var err error
	if h.freeze != nil {
		err = runUnderFreeze(ctx, h.freeze, take)
	} else {
		err = take(ctx)
	}
	if err != nil {
		return sw.undoFailedTake(ctx, snap, h.volume, backend, err)
	}
	return sw.records.saveSnapshotRecord(snap, taken)
}
