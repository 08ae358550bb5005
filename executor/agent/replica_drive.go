package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// replicaError is why a replica's work stopped. Replicas wait for each other, for a disk or for
// an operator: nothing else that is done to the volume fails because of it.
type replicaError struct{ error }

func (r *replicaError) Unwrap() error { return r.error }

// isReplicaWait reports whether the failure is only the replica's, of a volume that exists.
func isReplicaWait(d *fsm.DesiredVolume, err error) bool {
	var r *replicaError
	return d.Goal != fsm.GoalCreate && !plan.Converts(d) && errors.As(err, &r)
}

// driveReplica does step after step until plan.NextReplicaStep has none.
func (rw *replicaWorker) driveReplica(ctx context.Context, v *volume) error {
	if err := rw.drive(ctx, &replicaJob{replicaWorker: rw, v: v}); err != nil {
		return &replicaError{err}
	}
	return nil
}

// replicaJob is the work on a volume's replica.
type replicaJob struct {
	*replicaWorker
	v *volume

	// When the step was chosen.
	view *plan.VolumeView
	at   fsm.Epoch
	want *plan.ReplicaSpec
	have *plan.ObservedReplica
}

func (j *replicaJob) choose(ctx context.Context) (plan.Step, error) {
	view, at, err := j.observer.view(ctx, j.v)
	if err == nil && view.Have.Replica != nil {
		err = errors.Join(j.recordDiskState(j.v, view.Have.Replica), j.records.recordShared(j.v, view.Have.Replica), j.recordIsolation(j.v, view), j.recordConverted(j.v, view))
	}
	if err != nil || view.Have.Replica == nil || view.Desired == nil || !view.Actionable {
		return plan.Step{}, err
	}
	removeUnknown(view, j.v.record.Replica)
	if view.Desired.Replication == nil {
		return plan.Step{}, nil
	}
	j.view, j.at = view, at
	j.want, j.have = j.replicaInputs(j.v, view)
	return plan.NextReplicaStep(j.want, j.have), nil
}

// removeUnknown: a volume that is to be removed is, also where the log, restored to before it became a replicated one, does not
// know of the replica (S1).
func removeUnknown(view *plan.VolumeView, recorded *records.ReplicaRecord) {
	if d := view.Desired; d.Replication == nil && d.Goal == fsm.GoalRemove && recorded != nil {
		known := *d
		known.Replication = &fsm.DesiredReplica{Minor: recorded.Minor}
		view.Desired = &known
	}
}

// authorize records the desired state as acted on (S14), in the session it was read in (S2).
func (j *replicaJob) authorize(plan.Step) error { return j.acted.Persist(j.at, j.view.IncarnationID) }

func (j *replicaJob) perform(ctx context.Context, s plan.Step) error {
	return j.performReplicaStep(ctx, j.v, j.view, s.Kind, j.want, j.have)
}

func (j *replicaJob) stepEnded(s plan.Step, began time.Time, err error) {
	var rej *fsm.Rejection
	switch {
	case err == nil:
		j.logger(j.v).Debug("step done", "step", s.Kind, "took", time.Since(began))
	case errors.As(err, &rej):
		j.logger(j.v).Debug("step refused", "step", s.Kind, "error", err)
	default:
		j.logger(j.v).Warn("step failed", "step", s.Kind, "error", err)
	}
}

func (j *replicaJob) wrap(kind plan.StepKind, err error) error { return wrapStep(j.v, kind, err) }

func (j *replicaJob) notConverged() error {
	return fmt.Errorf("the replica of volume %s has not converged after %d steps", j.v.id, maxSteps)
}
