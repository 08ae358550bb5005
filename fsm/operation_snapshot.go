package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// cancelSnapshot stops taking a snapshot, which is then Failed: the next create of its name,
// or its delete, makes its host remove what it has of it.
func (s *State) cancelSnapshot(n *Snapshot) (*fsmpb.Outcome, *Rejection) {
	switch {
	case s.level2() && n.Operation.Kind == OpDelete && n.Error == cancelled:
		return n.outcome(), nil
	case n.Operation.Kind != OpSnapshot:
		return nil, Reject(Precondition, "operation %s of snapshot %s is an obligation and cannot be cancelled", n.Operation.ID, n.ID)
	case n.Operation.State == OpCancelled:
		return n.outcome(), nil
	case n.Operation.State == OpFailed:
		return nil, Reject(Precondition, "operation %s of snapshot %s failed already", n.Operation.ID, n.ID)
	}
	if s.level2() {
		updated := n.asFailedCreate(Busy, cancelled)
		s.putSnapshot(updated)
		return updated.outcome(), nil
	}
	updated, op := *n, *n.Operation
	op.State = OpCancelled
	updated.Operation, updated.Phase, updated.Error = &op, SnapshotFailed, cancelled
	s.putSnapshot(updated)
	return updated.outcome(), nil
}

// cancelGroup aborts a group; its hosts remove the snapshots that were taken.
func (s *State) cancelGroup(g *GroupSnapshot) (*fsmpb.Outcome, *Rejection) {
	switch {
	case s.level2() && g.Phase == GroupAborting && g.Error == cancelled:
	case g.Operation.Kind != OpSnapshot:
		return nil, Reject(Precondition, "operation %s of group snapshot %s is an obligation and cannot be cancelled", g.Operation.ID, g.ID)
	case g.isUnderWay():
		s.abortGroup(g, Busy, cancelled)
	}
	return g.outcome(), nil
}

// retrySnapshot begins the operation again: the removal, or the taking if that is still
// possible.
func (s *State) retrySnapshot(m Meta, n *Snapshot) (*fsmpb.Outcome, *Rejection) {
	updated := *n
	updated.Operation = n.Operation.retried(m)
	if n.Operation.Kind == OpSnapshot {
		from, rej := s.volumeOrigin(string(n.Source))
		if rej != nil {
			return nil, rej
		}
		if from.size != n.Size || from.node.Host != n.Host {
			return nil, Reject(Precondition, "volume %s is not any more what snapshot %s was to be cut of: delete it and create another", n.Source, n.ID)
		}
		updated.Phase, updated.Error = SnapshotTaking, ""
	}
	s.putSnapshot(updated)
	return updated.outcome(), nil
}

// retryGroup begins the removal of a group again. Another attempt to take it begins with the
// next create of its name.
func (s *State) retryGroup(m Meta, g *GroupSnapshot) (*fsmpb.Outcome, *Rejection) {
	if g.Operation.Kind != OpDelete {
		return nil, Reject(Precondition, "group snapshot %s is cut again by creating it again", g.ID)
	}
	updated := *g
	updated.Operation = g.Operation.retried(m)
	s.putGroup(updated)
	return updated.outcome(), nil
}
