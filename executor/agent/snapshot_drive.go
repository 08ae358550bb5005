package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// driveSnapshot does step after step until plan.NextSnapshotStep has none, then reports.
func (sw *snapshotWorker) driveSnapshot(ctx context.Context, snap *snapshotState) error {
	sw.keepSnapshotManifest(snap)
	j := &snapshotJob{snapshotWorker: sw, snap: snap}
	if err := sw.drive(ctx, j); err != nil {
		return err
	}
	sw.snapshotReports.reportSnapshot(snap, j.s)
	return nil
}

// snapshotJob is the work on a snapshot.
type snapshotJob struct {
	*snapshotWorker
	snap  *snapshotState
	s     *plan.SnapshotView // when the step was chosen
	at    fsm.Epoch
	begun bool // the step has begun
}

// choose picks the next step, or returns errRequeued while an unkillable child may work on the
// snapshot.
func (j *snapshotJob) choose(ctx context.Context) (s plan.Step, err error) {
	if j.s, j.at, err = j.observeSnapshot(ctx, j.snap); err != nil {
		return plan.Step{}, err
	}
	j.begun, s = false, plan.NextSnapshotStep(j.s)
	if j.snap.isParked(j.s, s.Kind) {
		return plan.Step{}, errRequeued
	}
	return s, nil
}

// authorize records desired state as acted on (S14); a thaw waits for nothing.
func (j *snapshotJob) authorize(s plan.Step) error {
	if j.onlyEnds(s.Kind) {
		return nil
	}
	return j.acted.Persist(j.at, j.s.IncarnationID)
}

// onlyEnds reports whether the step needs no desired state.
func (j *snapshotJob) onlyEnds(kind plan.StepKind) bool {
	return kind == plan.StepThaw || kind == plan.StepForgetSnapshotRecord || kind == plan.StepRecordMissing
}

func (j *snapshotJob) perform(ctx context.Context, s plan.Step) error {
	j.begun = true
	switch s.Kind {
	case plan.StepThaw:
		if err := j.freezer.releaseHold(ctx, j.snap.freezeHold); err != nil {
			return err
		}
		j.snap.freezeHold = nil
		return nil
	case plan.StepForgetSnapshotRecord:
		return j.records.forgetSnapshotRecord(j.snap)
	case plan.StepRecordMissing:
		return j.records.saveSnapshotRecord(j.snap, records.SnapshotRecord{Phase: records.PhaseMissing})
	}
	return j.performSnapshotStep(ctx, j.snap, j.s, s.Kind)
}

func (j *snapshotJob) stepEnded(plan.Step, time.Time, error) {}

func (j *snapshotJob) wrap(kind plan.StepKind, err error) error {
	if !j.begun || j.onlyEnds(kind) {
		return err
	}
	return fmt.Errorf("%s snapshot %s of volume %s: %w", kind, j.snap.id, j.s.Desired.Source, err)
}

func (j *snapshotJob) notConverged() error {
	return fmt.Errorf("snapshot %s has not converged after %d steps", j.snap.id, maxSteps)
}
