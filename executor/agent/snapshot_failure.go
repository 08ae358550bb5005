package agent

import (
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportSnapshotFailure reports why taking or removing a snapshot fails: at first each time, then
// at growing intervals.
func (r *snapshotReporter) reportSnapshotFailure(c *snapshotState, err error) {
	r.Logger.Warn("the snapshot has not reached its desired state", "snapshot", c.id, "error", err, "failures", c.failures+1)
	w := c.lastTried
	if w == nil || w.Goal == fsm.SnapshotGoalKeep || isUnavailable(err) || c.failures > 3 && c.failures&(c.failures-1) != 0 {
		return
	}
	ob := plan.ObservationOf(c.id, w.Source)
	failure := failureOf(plan.SnapshotOperationStep(w), err)
	failure.Final = failure.Final && (w.Goal == fsm.SnapshotGoalTake || w.Goal == fsm.SnapshotGoalFreeze)
	if r.atLevel2() {
		failure.OperationId, failure.Attempt = uint64(w.Operation), w.Retry
	}
	ob.Fact = &fsmpb.Observation_StepFailed{StepFailed: failure}
	r.sendSnapshotFact(c, plan.Fact{Name: plan.FactStepFailed}, ob)
}
