package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

func (sw *snapshotWorker) performSnapshotStep(ctx context.Context, snap *snapshotState, s *plan.SnapshotView, kind plan.StepKind) error {
	backend, err := sw.poolSet.snapshotPool(s.Desired)
	if err != nil {
		return err
	}
	switch {
	case kind == plan.StepRemoveSnapshot:
		if err := backend.RemoveSnapshot(ctx, snap.id); err != nil {
			return err
		}
		sw.noteSnapshotRemoved(snap)
		return nil
	case kind == plan.StepFreeze:
		return sw.freezeMember(ctx, snap, s.Desired)
	case snap.freezeHold != nil:
		return sw.takeUnderHold(ctx, snap, s.Desired, backend)
	}
	return sw.takeFrozen(ctx, snap, s.Desired)
}

// takeFrozen takes a single snapshot, under a freeze where one is needed (S19).
func (sw *snapshotWorker) takeFrozen(ctx context.Context, snap *snapshotState, d *fsm.DesiredSnapshot) error {
	v, err := sw.lockSnapshotSource(snap, d)
	if err != nil {
		return err
	}
	defer sw.unlockSource(v, nil)
	s, backend, err := sw.observer.observeSource(ctx, v, false)
	if err != nil {
		return err
	}
	if rej := s.Refusal(v.id); rej != nil {
		return rej
	}
	if err := sw.records.saveSnapshotRecord(snap, records.SnapshotRecord{Phase: records.PhaseBegun, Attempt: d.Attempt}); err != nil {
		return err
	}
	taken := records.SnapshotRecord{Phase: records.PhaseTaken, Attempt: d.Attempt}
	if err := sw.freezer.runFrozen(ctx, v, s, func(ctx context.Context) error { return sw.takeNow(ctx, snap, d, backend, &taken) }); err != nil {
		return sw.undoFailedTake(ctx, snap, v, backend, err)
	}
	return sw.records.saveSnapshotRecord(snap, taken)
}

// takeNow takes the snapshot, and notes when.
func (sw *snapshotWorker) takeNow(ctx context.Context, snap *snapshotState, d *fsm.DesiredSnapshot, backend executor.SnapshotBackend, taken *records.SnapshotRecord) error {
	sw.hitFaultPoint("cut.before")
	taken.TakenAt = time.Now()
	err := backend.TakeSnapshot(ctx, d.Source, snap.id, sw.reports.progress("", snap.id, d.Source))
	sw.hitFaultPoint("cut.after")
	if err == nil {
		err = sw.checkTakenSize(ctx, snap, d)
	}
	return err
}

// checkTakenSize observes what was taken: a copy that ended early without an error is not reported.
func (sw *snapshotWorker) checkTakenSize(ctx context.Context, snap *snapshotState, d *fsm.DesiredSnapshot) error {
	backend, err := sw.poolSet.snapshotPool(d)
	if err != nil {
		return err
	}
	have, err := backend.ObserveSnapshot(ctx, snap.id)
	if err == nil && have.Size != d.Size {
		err = fmt.Errorf("snapshot %s has %d bytes after it was taken, not %d", snap.id, have.Size, d.Size)
	}
	return err
}

// undoFailedTake undoes a snapshot that failed. While an unkillable child is left, the source is
// parked; what the child makes is removed when it is gone.
func (sw *snapshotWorker) undoFailedTake(ctx context.Context, snap *snapshotState, source *volume, backend executor.SnapshotBackend, err error) error {
	if unkillableDone(err) == nil {
		return errors.Join(err, sw.removeTaken(ctx, snap, backend))
	}
	sw.parkVolume(source, err)
	return err
}

// removeTaken removes a snapshot whose freeze did not hold: it was never reported.
func (sw *snapshotWorker) removeTaken(ctx context.Context, snap *snapshotState, backend executor.SnapshotBackend) error {
	have, err := backend.ObserveSnapshot(ctx, snap.id)
	if err != nil || have.Absent || !have.Exists && !have.Unfinished {
		return err
	}
	return backend.RemoveSnapshot(ctx, snap.id)
}
