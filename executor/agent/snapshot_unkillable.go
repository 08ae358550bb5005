package agent

import (
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// parkSnapshot leaves the snapshot alone until a child is gone that works on it and that cannot
// be killed.
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

// isParked: a child that cannot be killed may still make the snapshot, or remove it. It is
// neither cut nor removed, nor told to be gone, before that has ended. A thaw waits for nothing.
func (c *snapshotState) isParked(s *plan.SnapshotView, kind plan.StepKind) bool {
	select {
	case <-c.parked:
		c.parked = nil
	default:
	}
	goes := s.Desired != nil && (s.Desired.Goal == fsm.SnapshotGoalRemove || s.Desired.Goal == fsm.SnapshotGoalThaw)
	return c.parked != nil && kind != plan.StepThaw && (kind != plan.StepNone || goes)
}
