package agent

import (
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// parkSnapshot leaves the snapshot alone until the unkillable child that works on it is gone.
func (sw *snapshotWorker) parkSnapshot(snap *snapshotState, err error) {
	parked := unkillableDone(err)
	if parked == nil {
		return
	}
	if snap.parked != nil {
		parked = allClosed([]<-chan struct{}{snap.parked, parked})
	}
	snap.parked = parked
	go func() {
		<-parked
		sw.snapshotQueue.add(snap.id)
	}()
}

// isParked reports whether an unkillable child may still make or remove the snapshot. Until it is
// gone the snapshot is neither taken nor removed, nor reported as gone. A thaw waits for nothing.
func (snap *snapshotState) isParked(s *plan.SnapshotView, kind plan.StepKind) bool {
	select {
	case <-snap.parked:
		snap.parked = nil
	default:
	}
	toBeRemoved := s.Desired != nil && (s.Desired.Goal == fsm.SnapshotGoalRemove || s.Desired.Goal == fsm.SnapshotGoalThaw)
	return snap.parked != nil && kind != plan.StepThaw && (kind != plan.StepNone || toBeRemoved)
}
