package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyExpandVolume decides a larger size (S25); it is reached when the hosts reported
// their devices grown. A volume never shrinks, and one that is as large already is
// unchanged. While its content is being copied it keeps its size, as the sizes of the copies
// are decided already.
func applyExpandVolume(s *State, m Meta, c *fsmpb.ExpandVolume) (*fsmpb.Outcome, *Rejection) {
	v, size, rej := s.requestedExpansion(m.endpoint, c)
	if rej != nil {
		return nil, rej
	}
	if size == v.Size {
		return s.operationOutcomeOf(v, OpExpand), nil
	}
	if rej := s.checkExpand(v, size, c.GetFacts()); rej != nil {
		return nil, rej
	}
	updated := *v
	updated.Size = size
	s.beginOperation(&updated, m.operation(OpExpand))
	s.putVolume(updated)
	return s.operationOutcomeOf(&updated, OpExpand), nil
}

// requestedExpansion is the volume and the size in bytes that the command asks for.
func (s *State) requestedExpansion(at endpoint, c *fsmpb.ExpandVolume) (*Volume, int64, *Rejection) {
	v, rej := s.homeVolume(at, "expand volume", c.GetVolumeId())
	if rej != nil {
		return nil, 0, rej
	}
	if c.Capability != nil && !v.Supports(v.asUsed(c.GetCapability())) {
		return nil, 0, Reject(Invalid, "expand volume %s: it was not created for %s", v.ID, v.asUsed(c.GetCapability()))
	}
	size, rej := v.expandedSize(c.GetRequiredBytes(), c.GetLimitBytes())
	return v, size, rej
}

// expandedSize is the size in bytes within the range, the volume's own when that is
// in it. OutOfRange: only a smaller size is in it, or no valid one.
func (v *Volume) expandedSize(required, limit int64) (int64, *Rejection) {
	switch {
	case required < 0 || limit < 0 || required == 0 && limit == 0:
		return 0, Reject(Invalid, "expand volume %s: the capacity range %d to %d is empty or has a negative bound", v.ID, required, limit)
	case limit != 0 && limit < required:
		return 0, Reject(Invalid, "expand volume %s: the limit of %d bytes is below the %d bytes required", v.ID, limit, required)
	case limit != 0 && limit < v.Size:
		return 0, Reject(OutOfRange, "expand volume %s: it has %d bytes, more than the limit of %d, and never shrinks", v.ID, v.Size, limit)
	case required > MaxVolumeSize:
		return 0, Reject(OutOfRange, "expand volume %s to %d bytes: the largest volume has %d", v.ID, required, int64(MaxVolumeSize))
	}
	size := max(roundUp(required), v.Size)
	if plantedbug.Is(plantedbug.VolumeShrinks) {
		size = roundUp(required)
	}
	if limit != 0 && size > limit {
		return 0, Reject(OutOfRange, "expand volume %s: no size between %d and %d bytes is a multiple of %d", v.ID, required, limit, VolumeSizeUnit)
	}
	return size, nil
}

// checkExpand checks everything that a larger size needs. From feature level 2 on a leaving
// replica is not expanded: its host may be unreachable for long. It keeps the size that it
// has, and is expanded if it takes part again.
func (s *State) checkExpand(v *Volume, size int64, facts []*fsmpb.PoolFact) *Rejection {
	if rej := v.reclaimFirst("expand"); rej != nil {
		return rej
	}
	if op := s.operationBlockingExpand(v); op != nil {
		return Reject(Busy, "expand volume %s: %s is under way on it", v.ID, op.ID)
	}
	if rej := s.checkNotSource(Busy, "expand volume", string(v.ID)); rej != nil {
		return rej
	}
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if s.level2() && r.State == ReplicaLeaving {
			continue
		}
		n, rej := s.askableHost("volume "+string(v.ID), r.Node, r.Host)
		if rej != nil {
			return rej
		}
		if r.State != ReplicaPresent || n.pool(r.Pool) == nil {
			return Reject(Precondition, "expand volume %s: its device is missing on node %s", v.ID, r.Node)
		}
		if by := size - v.Size; !plantedbug.Is(plantedbug.ExpandUnreserved) && (s.unreserved(n.pool(r.Pool)) < by || !s.hasFree(n.pool(r.Pool), by, facts)) {
			return Reject(NoCapacity, "expand volume %s: pool %s of node %s has no room for %d bytes more", v.ID, r.Pool, r.Node, by)
		}
	}
	return nil
}

// operationBlockingExpand is the operation that must end before the volume can grow, nil when none
// must. From feature level 2 on that is another expansion, the pending teardown of a host that
// has a replica, and the creation of a replica.
func (s *State) operationBlockingExpand(v *Volume) *Operation {
	if !s.level2() {
		if op := v.Operation; op != nil && op.State == OpRunning {
			return op
		}
		return nil
	}
	if op := v.running(OpExpand); op != nil {
		return op
	}
	for _, t := range v.Teardowns {
		if r := v.Replica(t.Host); r == nil || r.State != ReplicaLeaving {
			return v.OperationOf(OpTeardown)
		}
	}
	if op := v.running(OpReplicaChange); op != nil && (v.isAddingReplica() || len(v.ActiveReplicas()) >= int(v.Replication.ReplicaCount)) {
		return op
	}
	return nil
}

// isExpanding tells whether a host has not reported the volume's size yet.
func (v *Volume) isExpanding() bool {
	if _, ready := v.Phase.(Ready); !ready {
		return false
	}
	for i := range v.Replicas {
		switch r := &v.Replicas[i]; r.State {
		case ReplicaPresent, ReplicaMissing:
			if r.Size < v.Size {
				return true
			}
		case ReplicaPlanned, ReplicaGone, ReplicaLeaving:
		}
	}
	return false
}

// deviceGrown: the device has the size. A smaller or larger one than desired is ignored.
func (x reportContext) deviceGrown(v *Volume, f *fsmpb.DeviceGrown) (Volume, bool) {
	if !v.isExpanding() || f.GetSizeBytes() < v.Size || x.replica.Size == v.Size {
		return *v, false
	}
	x.replica.Size, x.replica.Undersized = v.Size, false
	updated := v.withReplica(x.replica)
	x.state.finishOperations(&updated)
	return updated, true
}

// revertSize goes back from a larger size that a host could not make to that of the device. A
// volume that had the size, and lost it with a host, keeps it: it was promised to callers.
func (v *Volume) revertSize() {
	var largest int64
	for i := range v.Replicas {
		if v.Replicas[i].Undersized {
			return
		}
		largest = max(largest, v.Replicas[i].Size)
	}
	v.Size = largest
}

// finishOperations ends the operations of a Ready volume that are done. At level 1, where a
// volume has one operation, it then begins what waited for the end of a teardown.
func (s *State) finishOperations(v *Volume) {
	op := v.Operation
	if s.level2() {
		v.finishDoneKinds()
		return
	}
	if op == nil {
		return
	}
	switch growing := v.isExpanding(); {
	case op.Kind == OpTeardown && len(v.Teardowns) > 0:
	case op.Kind == OpTeardown && growing:
		v.Operation = op.withKind(OpExpand)
	case op.Kind == OpTeardown && v.isChangingReplicas():
		v.Operation = op.withKind(OpReplicaChange)
	case op.Kind == OpTeardown, op.Kind == OpExpand && op.State == OpRunning && !growing,
		op.Kind == OpReplicaChange && v.replicaChangeDone():
		v.Operation = nil
	}
}

// finishDoneKinds ends each operation that is done. What level 1 put off during a teardown
// continues in the teardown's operation.
func (v *Volume) finishDoneKinds() {
	op := v.OperationOf(OpTeardown)
	if op != nil && len(v.Teardowns) == 0 {
		v.endOperation(OpTeardown)
		switch {
		case v.isExpanding() && v.OperationOf(OpExpand) == nil:
			v.putOperation(op.withKind(OpExpand))
		case v.isChangingReplicas() && !v.replicaChangeDone() && v.OperationOf(OpReplicaChange) == nil:
			v.putOperation(op.withKind(OpReplicaChange))
		}
	}
	if v.running(OpExpand) != nil && !v.isExpanding() {
		v.endOperation(OpExpand)
	}
	if v.OperationOf(OpReplicaChange) != nil && v.replicaChangeDone() {
		v.endOperation(OpReplicaChange)
	}
}
