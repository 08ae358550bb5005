package agent

import (
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportSnapshotFailure reports why taking or removing a snapshot fails: at first each time, then
// at growing intervals.
func (r *snapshotReporter) reportSnapshotFailure(snap *snapshotState, err error) {
	r.Logger.Warn("the snapshot has not reached its desired state", "snapshot", snap.id, "error", err, "failures", snap.failures+1)
	d := snap.lastTried
	if d == nil || d.Goal == fsm.SnapshotGoalKeep || isUnavailable(err) || snap.failures > 3 && snap.failures&(snap.failures-1) != 0 {
		return
	}
	ob := plan.ObservationOf(snap.id, d.Source)
	failure := failureOf(plan.SnapshotOperationStep(d), err)
	failure.Final = failure.Final && (d.Goal == fsm.SnapshotGoalTake || d.Goal == fsm.SnapshotGoalFreeze)
	if r.atLevel2() {
		failure.OperationId, failure.Attempt = uint64(d.Operation), d.Retry
	}
	ob.Fact = &fsmpb.Observation_StepFailed{StepFailed: failure}
	r.sendSnapshotFact(snap, plan.Fact{Name: plan.FactStepFailed}, ob)
}
