package fsm

// How far hosts are with snapshots and groups of them, for callers that wait; see
// volume_progress.go.

// SnapshotCreation is the snapshot once it is taken, nil while it is being taken.
func (s *State) SnapshotCreation(id SnapshotID) (*Snapshot, *Rejection) {
	n, ok := s.Snapshot(id)
	switch failed := s.CreateFailure(string(id)); {
	case failed != nil:
		return nil, failed.rejection("create snapshot " + string(id))
	case !ok || n.Phase == SnapshotDeleting:
		return nil, deletedMeanwhile("snapshot", string(id))
	case n.Phase == SnapshotFailed:
		return nil, n.creationFailure()
	case n.isKnown():
		return n, nil
	}
	return nil, nil
}

// creationFailure says why; the next create with the name takes it anew.
func (n *Snapshot) creationFailure() *Rejection {
	if op := n.Operation; op != nil && op.State == OpFailed {
		return Reject(op.Reason, "create snapshot %q: %s", n.Name, op.LastError)
	}
	return Reject(Busy, "create snapshot %q: %s; retry", n.Name, n.Error)
}

// SnapshotRemoval tells whether no reachable host has the snapshot any more. On an unreachable
// one the removal stays pending (S18).
func (s *State) SnapshotRemoval(id SnapshotID) (done bool, rej *Rejection) {
	n, ok := s.Snapshot(id)
	switch {
	case !ok:
		return true, nil
	case n.Phase != SnapshotDeleting:
		return false, nil
	case n.Gone || !s.HostReachable(n.Node, n.Host):
		return true, nil
	}
	return false, n.Operation.failedRemoval("snapshot "+string(id), n.Node)
}
