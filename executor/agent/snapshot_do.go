package agent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

func (sw *snapshotWorker) performSnapshotStep(ctx context.Context, c *snapshotState, s *plan.SnapshotView, kind plan.StepKind) error {
	backend, err := sw.poolSet.snapshotPool(s.Desired)
	if err != nil {
		return err
	}
	switch {
	case kind == plan.StepRemoveSnapshot:
		return backend.RemoveSnapshot(ctx, c.id)
	case kind == plan.StepFreeze:
		return sw.freezeMember(ctx, c, s.Desired)
	case c.freezeHold != nil:
		return sw.takeUnderHold(ctx, c, s.Desired, backend)
	}
	return sw.takeFrozen(ctx, c, s.Desired)
}

// takeFrozen takes a single snapshot, under a freeze where one is needed (S19).
func (sw *snapshotWorker) takeFrozen(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot) error {
	v, err := sw.lockSnapshotSource(c, w)
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
	if err := sw.records.saveSnapshotRecord(c, records.SnapshotRecord{Phase: records.PhaseBegun, Attempt: w.Attempt}); err != nil {
		return err
	}
	taken := records.SnapshotRecord{Phase: records.PhaseTaken, Attempt: w.Attempt}
	if err := sw.freezer.runFrozen(ctx, v, s, func(ctx context.Context) error { return sw.takeNow(ctx, c, w, backend, &taken) }); err != nil {
		return sw.undoFailedTake(ctx, c, v, backend, err)
	}
	return sw.records.saveSnapshotRecord(c, taken)
}

// takeNow takes the snapshot, and notes when.
func (sw *snapshotWorker) takeNow(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot, backend executor.SnapshotBackend, taken *records.SnapshotRecord) error {
	sw.hitFaultPoint("cut.before")
	taken.TakenAt = time.Now()
	err := backend.TakeSnapshot(ctx, w.Source, c.id, sw.reports.progress("", c.id, w.Source))
	sw.hitFaultPoint("cut.after")
	return err
}

// undoFailedTake undoes a snapshot that failed. While an unkillable child is left, the source is
// parked; what the child makes is removed when it is gone.
func (sw *snapshotWorker) undoFailedTake(ctx context.Context, c *snapshotState, source *volume, backend executor.SnapshotBackend, err error) error {
	if unkillableDone(err) == nil {
		return errors.Join(err, sw.removeTaken(ctx, c, backend))
	}
	sw.parkVolume(source, err)
	return err
}

// removeTaken removes a snapshot whose freeze did not hold: it was never reported.
func (sw *snapshotWorker) removeTaken(ctx context.Context, c *snapshotState, backend executor.SnapshotBackend) error {
	have, err := backend.ObserveSnapshot(ctx, c.id)
	if err != nil || have.Absent || !have.Exists && !have.Unfinished {
		return err
	}
	return backend.RemoveSnapshot(ctx, c.id)
}
