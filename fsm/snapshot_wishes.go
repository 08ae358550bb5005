package fsm

import "iter"

// SnapshotWish is what the log wants of a host for a snapshot; false when nothing.
func (s *State) SnapshotWish(node NodeID, id SnapshotID) (SnapshotWish, bool) {
	at, ok := s.Node(node)
	if !ok || at.State == NodeLost {
		return SnapshotWish{}, false
	}
	n, ok := s.Snapshot(id)
	if !ok {
		return SnapshotWish{}, false
	}
	return s.snapshotWish(at, n)
}

// SnapshotWishes yields all snapshot wishes for a host in order of id.
func (s *State) SnapshotWishes(node NodeID) iter.Seq[SnapshotWish] {
	return func(yield func(SnapshotWish) bool) {
		at, ok := s.Node(node)
		if !ok || at.State == NodeLost {
			return
		}
		for n := range s.SnapshotsOn(node) {
			if w, ok := s.snapshotWish(at, n); ok && !yield(w) {
				return
			}
		}
	}
}

// snapshotWish is addressed to the host, not to its name (S17). What a replica is to keep
// before it is discarded belongs to that: there is no wish for it until it is there.
func (s *State) snapshotWish(at *Node, n *Snapshot) (SnapshotWish, bool) {
	if n.Host != at.Host || n.Gone || n.Kept != nil && n.Phase == SnapshotCutting {
		return SnapshotWish{}, false
	}
	w := SnapshotWish{
		Snapshot: n.ID, Source: n.Source, Pool: n.Pool, Size: n.Size, Verb: s.snapshotVerb(at, n),
		Group: n.Group, Sequence: n.Sequence, Frozen: n.Frozen,
	}
	if g, ok := s.GroupSnapshot(n.Group); ok {
		w.Attempt = g.Attempt
		w.Operation, w.Retry = g.Operation.named()
	} else if n.Operation != nil {
		w.Attempt = n.Operation.Retries
		w.Operation, w.Retry = n.Operation.named()
	}
	return w, true
}

// snapshotVerb is what may be done: a cut belongs to Cutting, removal is said by
// Deleting or by a group that was given up (S14), and neither is asked of a host in
// adoption mode (S1).
func (s *State) snapshotVerb(at *Node, n *Snapshot) SnapshotVerb {
	if at.Incarnation != s.cluster.Incarnation {
		return SnapshotKeep
	}
	g, grouped := s.GroupSnapshot(n.Group)
	switch {
	case n.Phase == SnapshotDeleting:
		return SnapshotRemove
	case grouped && g.Phase == GroupAborting:
		return SnapshotThaw
	case n.Phase != SnapshotCutting || !n.Cut.IsZero():
		return SnapshotKeep
	case grouped && g.Phase == GroupFreezing:
		return SnapshotFreeze
	}
	return SnapshotCut
}
