package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// driveSnapshot does step after step until nextSnapshotStep has none, then tells what is new.
func (sw *snapshotWorker) driveSnapshot(ctx context.Context, c *snapshotState) error {
	j := &snapshotJob{snapshotWorker: sw, c: c}
	if err := sw.drive(ctx, j); err != nil {
		return err
	}
	sw.snapshotReports.reportSnapshot(c, j.s)
	return nil
}

// snapshotJob is one work on a snapshot.
type snapshotJob struct {
	*snapshotWorker
	c     *snapshotState
	s     *plan.SnapshotView // when the step was chosen
	at    fsm.Epoch
	begun bool // the step was
}

// choose: a child that cannot be killed may still work on the snapshot.
func (j *snapshotJob) choose(ctx context.Context) (s plan.Step, err error) {
	if j.s, j.at, err = j.observeSnapshot(ctx, j.c); err != nil {
		return plan.Step{}, err
	}
	j.begun, s = false, plan.NextSnapshotStep(j.s)
	if j.c.isParked(j.s, s.Kind) {
		return plan.Step{}, errRequeued
	}
	return s, nil
}

// authorize: what a wish asks for is recorded as acted on first (S14); a thaw waits for nothing.
func (j *snapshotJob) authorize(s plan.Step) error {
	if j.onlyEnds(s.Kind) {
		return nil
	}
	return j.acted.Persist(j.at, j.s.IncarnationID)
}

// onlyEnds tells whether the step needs no wish.
func (j *snapshotJob) onlyEnds(kind plan.StepKind) bool {
	return kind == plan.StepThaw || kind == plan.StepForgetSnapshotRecord || kind == plan.StepRecordMissing
}

func (j *snapshotJob) perform(ctx context.Context, s plan.Step) error {
	j.begun = true
	switch s.Kind {
	case plan.StepThaw:
		if err := j.freezer.releaseHold(ctx, j.c.freezeHold); err != nil {
			return err
		}
		j.c.freezeHold = nil
		return nil
	case plan.StepForgetSnapshotRecord:
		return j.records.forgetSnapshotRecord(j.c)
	case plan.StepRecordMissing:
		return j.records.saveSnapshotRecord(j.c, records.SnapshotRecord{Phase: records.PhaseMissing})
	}
	return j.performSnapshotStep(ctx, j.c, j.s, s.Kind)
}

func (j *snapshotJob) did(plan.Step, time.Time, error) {}

func (j *snapshotJob) wrap(kind plan.StepKind, err error) error {
	if !j.begun || j.onlyEnds(kind) {
		return err
	}
	return fmt.Errorf("%s snapshot %s of volume %s: %w", kind, j.c.id, j.s.Desired.Source, err)
}

func (j *snapshotJob) restless() error {
	return fmt.Errorf("snapshot %s is not as it should be after %d steps", j.c.id, maxSteps)
}
