package agent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
)

// maxSteps bounds the steps of one job; more means that the host does not converge.
const maxSteps = 64

// errRequeued says that the volume is locked: the snapshot that waits for it is queued again
// when the lock is released.
var errRequeued = errors.New("the volume is being worked on")

// stepJob is what the loop brings to its desired state step by step: a volume, a replica or a
// snapshot. The caller of drive has its lock.
type stepJob interface {
	// choose observes and picks the one step to do next: StepNone when there is none, or its
	// time has not come.
	choose(ctx context.Context) (plan.Step, error)
	// authorize is called before each step. What hands a volume out needs a grant of this session
	// (S2); acting on desired state is recorded first (S14).
	authorize(s plan.Step) error
	perform(ctx context.Context, s plan.Step) error
	// stepEnded notes how a step ended.
	stepEnded(s plan.Step, began time.Time, err error)
	// wrap adds to an error which step failed on what.
	wrap(kind plan.StepKind, err error) error
	// notConverged is the error when it does not converge.
	notConverged() error
}

// drive does one step after another until there is none: what a step achieved is learned
// by observing, never assumed. A refusal is returned unchanged.
func (en *env) drive(ctx context.Context, j stepJob) error {
	for range maxSteps {
		s, err := j.choose(ctx)
		switch {
		case err != nil:
			return err
		case s.Kind == plan.StepNone:
			return nil
		case s.Kind == plan.StepRefuse:
			return s.Refusal
		}
		if err := en.do(ctx, j, s); err != nil {
			return j.wrap(s.Kind, err)
		}
	}
	return j.notConverged()
}

// do does one step between its two fault points, and measures it.
func (en *env) do(ctx context.Context, j stepJob, s plan.Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := j.authorize(s); err != nil {
		return err
	}
	hooks, began := stepHooksOf(s.Kind), time.Now()
	if hooks.faultPoints {
		en.hitFaultPoint(string(s.Kind) + ".before")
	}
	err := j.perform(ctx, s)
	if hooks.faultPoints {
		en.hitFaultPoint(string(s.Kind) + ".after")
	}
	if hooks.measured && !(hooks.mayRequeue && errors.Is(err, errRequeued)) {
		en.metrics.observeStep(s.Kind, began, err)
	}
	j.stepEnded(s, began, err)
	return err
}

// stepHooks says what the loop does around a step: pass its fault points, and measure it. A
// step that waits for a lock (errRequeued) is not counted until it ran.
type stepHooks struct{ faultPoints, measured, mayRequeue bool }

// stepHooksOf returns what surrounds a step. Freezing and taking pass their fault points
// themselves, since a copy freezes too; steps that only end a hold or a record are not measured.
func stepHooksOf(kind plan.StepKind) stepHooks {
	switch kind {
	case plan.StepFreeze, plan.StepRecordMissing:
		return stepHooks{}
	case plan.StepTakeSnapshot:
		return stepHooks{measured: true, mayRequeue: true}
	case plan.StepThaw, plan.StepForgetSnapshotRecord:
		return stepHooks{faultPoints: true}
	}
	return stepHooks{faultPoints: true, measured: true}
}
