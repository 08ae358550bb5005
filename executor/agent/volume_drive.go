package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// job is the work on a volume: its spec, and the call or desired state that it is for.
type job struct {
	*volumeWorker
	v     *volume
	want  *plan.VolumeSpec
	have  *plan.ObservedVolume  // when the step was chosen
	call  *call                 // nil in the background
	flags []string              // mount flags of the call; never written anywhere
	keys  []executor.Passphrase // of the call; never written anywhere (S63)
	steps int                   // done so far
	// at is the epoch of the desired state that is acted on; with incarnationID. Zero for calls.
	at            fsm.Epoch
	incarnationID []byte
	// epoch is that of the publication whose intent a call withdraws, else zero.
	epoch fsm.Epoch
}

// drive brings the volume to its spec.
func (j *job) drive(ctx context.Context) error {
	j.want.CanExpandFilesystem, j.want.CanThrottle = j.FilesystemTools != nil, j.Throttle != nil
	return j.env.drive(ctx, j)
}

func (j *job) choose(ctx context.Context) (plan.Step, error) {
	have, err := j.observer.observeVolume(ctx, j.v, j.want)
	if err != nil {
		return plan.Step{}, err
	}
	j.have = &have
	s := plan.NextVolumeStep(j.want, &have)
	if s.Kind == plan.StepRefuse {
		j.v.crypt.header = executor.LUKSHeader{} // it is read again: an operator may restore it meanwhile
	}
	j.v.limitsStep = j.isLimitsStep(s, &have)
	return s, nil
}

// isLimitsStep reports whether the step, or the refusal of one, is about new limits.
func (j *job) isLimitsStep(s plan.Step, have *plan.ObservedVolume) bool {
	return s.Kind == plan.StepThrottle ||
		s.Kind == plan.StepRefuse && j.want.Grant == nil && have.Size >= j.want.Size && plan.NextLimits(j.want, have).Kind == plan.StepRefuse
}

// authorize: handing a volume out needs a grant of this session (S2); acting on desired state is
// recorded first (S14).
func (j *job) authorize(plan.Step) error {
	if g := j.want.Grant; g != nil && !j.sessionHolds(g.Session) && !plantedbug.Is(plantedbug.OldGrantUsed) {
		return errSessionChanged
	}
	if j.call != nil || j.at.IsZero() {
		return nil
	}
	if j.removalTakenBack() {
		return errRequeued // with the desired state that came meanwhile
	}
	return j.acted.Persist(j.at, j.incarnationID)
}

// removalTakenBack: the volume was to be removed when this work began, and is not any more. It may be the last copy (S71).
func (j *job) removalTakenBack() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.want.Goal == fsm.GoalRemove && j.v.desired != nil && j.v.desired.Goal != fsm.GoalRemove
}

func (j *job) stepEnded(s plan.Step, began time.Time, err error) {
	j.steps++
	if err != nil {
		j.logger(j.v).Warn("step failed", "step", s.Kind, "error", err)
	} else {
		j.logger(j.v).Debug("step done", "step", s.Kind, "path", s.Path, "took", time.Since(began))
	}
}

func (j *job) wrap(kind plan.StepKind, err error) error { return wrapStep(j.v, kind, err) }

func (j *job) notConverged() error {
	return fmt.Errorf("volume %s has not converged after %d steps", j.v.id, maxSteps)
}
