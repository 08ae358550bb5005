package agent

import (
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// parkSnapshot leaves the snapshot alone until the unkillable child that works on it is gone.
func (sw *snapshotWorker) parkSnapshot(c *snapshotState, err error) {
	parked := unkillableDone(err)
	if parked == nil {
		return
	}
	if c.parked != nil {
		parked = allClosed([]<-chan struct{}{c.parked, parked})
	}
	c.parked = parked
	go func() {
		<-parked
		sw.snapshotQueue.add(c.id)
	}()
}

// isParked reports whether an unkillable child may still make or remove the snapshot. Until it is
// gone the snapshot is neither taken nor removed, nor reported as gone. A thaw waits for nothing.
func (c *snapshotState) isParked(s *plan.SnapshotView, kind plan.StepKind) bool {
	select {
	case <-c.parked:
		c.parked = nil
	default:
	}
	toBeRemoved := s.Desired != nil && (s.Desired.Goal == fsm.SnapshotGoalRemove || s.Desired.Goal == fsm.SnapshotGoalThaw)
	return c.parked != nil && kind != plan.StepThaw && (kind != plan.StepNone || toBeRemoved)
}
