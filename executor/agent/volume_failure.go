package agent

import (
	"errors"
	"syscall"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportFailure reports why an operation fails: at first each time, then at growing intervals.
func (r *volumeReporter) reportFailure(v *volume, err error) {
	r.logger(v).Warn("the volume has not reached its desired state", "error", err, "failures", v.failures+1)
	if v.record == nil {
		return
	}
	r.mu.Lock()
	d, actionable := v.desired, r.isActionable(v)
	r.mu.Unlock()
	if actionable {
		r.reportInUse(v, d, err)
	}
	if v.lastTried == nil { // the desired state came only after the attempt
		return
	}
	if d == nil || d.Operation == 0 || !actionable || isUnavailable(err) || isReplicaWait(d, err) || v.failures > 3 && v.failures&(v.failures-1) != 0 {
		return
	}
	failure := failureOf(plan.OperationStep(d), err)
	failure.Final = endsOperation(d, err, failure.Final)
	if r.atLevel2() {
		id, number := v.currentOperation()
		failure.OperationId, failure.Attempt = uint64(id), number
	}
	ob := &fsmpb.Observation{VolumeId: string(v.id), Fact: &fsmpb.Observation_StepFailed{StepFailed: failure}}
	r.sendFact(v, plan.Fact{Name: plan.FactStepFailed}, ob)
}

// currentOperation is the operation that the last reconciliation worked on.
func (v *volume) currentOperation() (fsm.OperationID, uint32) {
	d := v.lastTried
	if v.limitsStep && d.ModifyOperation != 0 {
		return d.ModifyOperation, d.ModifyAttempt
	}
	return d.Operation, d.Attempt
}

// reportInUse reports what keeps a publication from ending whose end was asked for (S31), until
// that is committed.
func (r *volumeReporter) reportInUse(v *volume, d *fsm.DesiredVolume, err error) {
	if d == nil || d.Publication == nil || !d.Publication.Ending {
		return
	}
	f := plan.Fact{Name: plan.FactStagingInUse, Path: clipText(err.Error()), Epoch: d.Publication.Epoch}
	if f.Path != d.Publication.UsedBy && !r.isAcked(v, f) {
		r.sendFact(v, f, &fsmpb.Observation{VolumeId: string(v.id), Epoch: f.Epoch.Proto(),
			Fact: &fsmpb.Observation_StagingInUse{StagingInUse: &fsmpb.StagingInUse{Detail: f.Path}}})
	}
}

// endsOperation reports whether a failure ends the operation. Teardowns never end by a failure.
// Creating an empty volume ends only when a retry makes no difference; a copy, an expansion or
// new limits also when the host refused for good.
func endsOperation(d *fsm.DesiredVolume, err error, refused bool) bool {
	switch d.Goal {
	case fsm.GoalCreate:
		return noSpace(err) || isPermanent(err) || refused && (!d.Source.IsZero() || importEnds(d))
	case fsm.GoalKeep:
		unconverts := d.Replication != nil && d.Replication.Unconvert // it is an obligation
		return refused && d.Teardown == nil && !unconverts
	case fsm.GoalRemove:
	}
	return false
}

// importEnds reports whether a refusal ends an import: not once the metadata of a pair are being replaced, of which the other
// host may have done its part.
func importEnds(d *fsm.DesiredVolume) bool {
	i := d.ImportDRBD
	return d.ImportDevice != "" && (i == nil || !i.Paired || !i.Replace)
}

// noSpace reports whether the pool is full, or refuses what would fill it.
func noSpace(err error) bool {
	var rej *fsm.Rejection
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.As(err, &rej) && rej.Reason == fsm.NoCapacity
}

// isPermanent reports whether a retry makes no difference.
func isPermanent(err error) bool {
	var rej *fsm.Rejection
	return errors.Is(err, syscall.EFBIG) || errors.As(err, &rej) && rej.Reason == fsm.Incompatible
}

// failureOf is an error as it is reported, with the reason of a refusal. A refusal for good is
// final: a retry gets the same answer (S19).
func failureOf(what string, err error) *fsmpb.StepFailed {
	f := &fsmpb.StepFailed{Step: what, Error: err.Error(), NoSpace: noSpace(err)}
	var rej *fsm.Rejection
	if errors.As(err, &rej) {
		f.Reason = uint32(rej.Reason)
		f.Final = rej.Reason == fsm.Precondition || rej.Reason == fsm.OutOfRange
	}
	f.Final = f.Final || f.NoSpace || isPermanent(err)
	return f
}
