package agent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
)

// maxSteps bounds how many steps one work takes; more means that the host does
// not stay as it is made.
const maxSteps = 64

// errRequeued says that somebody else works on the volume: whoever wants to cut it is
// told when he is done.
var errRequeued = errors.New("the volume is being worked on")

// driven is what is brought to where it must be, a step at a time: a volume, a replica
// or a snapshot. Whoever drives it has its lock.
type driven interface {
	// choose observes, and picks the one step to do next: stepNone when there is none,
	// or it is not the time for one.
	choose(ctx context.Context) (plan.Step, error)
	// authorize is asked before a step is begun: what gives a volume out needs a grant of
	// this session (S2), and what a wish asks for is recorded as acted on first (S14).
	authorize(s plan.Step) error
	perform(ctx context.Context, s plan.Step) error
	// did notes how a step ended.
	did(s plan.Step, began time.Time, err error)
	// wrap says what was being done to what.
	wrap(kind plan.StepKind, err error) error
	// restless is the error of what does not stay as it is made.
	restless() error
}

// drive does step after step until there is none to do: what a step achieved is learned
// by observing, never assumed. A refusal is returned as it is.
func (en *env) drive(ctx context.Context, d driven) error {
	for range maxSteps {
		s, err := d.choose(ctx)
		switch {
		case err != nil:
			return err
		case s.Kind == plan.StepNone:
			return nil
		case s.Kind == plan.StepRefuse:
			return s.Refusal
		}
		if err := en.do(ctx, d, s); err != nil {
			return d.wrap(s.Kind, err)
		}
	}
	return d.restless()
}

// do does one step between two fault points, and measures it.
func (en *env) do(ctx context.Context, d driven, s plan.Step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.authorize(s); err != nil {
		return err
	}
	m, began := marksOf(s.Kind), time.Now()
	if m.points {
		en.hitFaultPoint(string(s.Kind) + ".before")
	}
	err := d.perform(ctx, s)
	if m.points {
		en.hitFaultPoint(string(s.Kind) + ".after")
	}
	if m.measured && !(m.waits && errors.Is(err, errRequeued)) {
		en.metrics.observeStep(s.Kind, began, err)
	}
	d.did(s, began, err)
	return err
}

// marks are what the loop draws around a step: its fault points, and its metric. One that
// waits is not counted while it does.
type marks struct{ points, measured, waits bool }

// marksOf: a freeze and a cut have their points where they happen, which is within
// other steps too; what only ends a hold or a record is not measured.
func marksOf(kind plan.StepKind) marks {
	switch kind {
	case plan.StepFreeze, plan.StepRecordMissing:
		return marks{}
	case plan.StepTakeSnapshot:
		return marks{measured: true, waits: true}
	case plan.StepThaw, plan.StepForgetSnapshotRecord:
		return marks{points: true}
	}
	return marks{points: true, measured: true}
}
