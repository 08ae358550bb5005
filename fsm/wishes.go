package fsm

import "iter"

// Wish is what the log wants of a host for a volume; false when it wants nothing.
func (s *State) Wish(node NodeID, volume VolumeID) (Wish, bool) {
	n, ok := s.Node(node)
	if !ok || n.State == NodeLost {
		return Wish{}, false
	}
	v, ok := s.Volume(volume)
	if !ok {
		return Wish{}, false
	}
	return s.wish(n, v)
}

// Wishes yields all wishes for a host in order of volume id.
func (s *State) Wishes(node NodeID) iter.Seq[Wish] {
	return func(yield func(Wish) bool) {
		n, ok := s.Node(node)
		if !ok || n.State == NodeLost {
			return
		}
		for v := range s.VolumesOn(node) {
			if w, ok := s.wish(n, v); ok && !yield(w) {
				return
			}
		}
	}
}

// wish is addressed to the host, not to the name: a host that was installed again
// under an old name finds nothing here that its predecessor owed (S17).
func (s *State) wish(n *Node, v *Volume) (Wish, bool) {
	r, owed := v.Replica(n.Host), v.Teardown(n.Host)
	p := v.Publication(n.ID)
	if p != nil && p.Host != n.Host {
		p = nil
	}
	if r == nil && owed == nil && p == nil {
		return Wish{}, false
	}
	w := Wish{Volume: v.ID, Size: v.Size, Verb: s.verb(n, v, r), Format: v.Format, Publication: p, Teardown: owed, Limits: v.Limits}
	if w.Verb == WishCreate && v.madeFromSource(n.Host) {
		w.Source = v.Source
		w.SourceSize, _ = s.SourceSize(v.Source)
	}
	w.Replication = s.replicaWish(n, v)
	if r != nil {
		w.Pool, w.Sequence, w.Replica = r.Pool, r.Sequence, r.State
	}
	w.Operation, w.Attempt = v.operationFor(n.Host).named()
	w.Modify, w.ModifyAttempt = v.OperationOf(OpModify).named()
	return w, true
}

// verb is what may be done to the device: creation belongs to Creating, deletion
// is said by Deleting, and both by a replica that a Ready volume gets or gives up (S14), and neither is asked of a host in adoption mode (S1).
func (s *State) verb(n *Node, v *Volume, r *Replica) Verb {
	if n.Incarnation != s.cluster.Incarnation {
		return WishKeep
	}
	switch v.Phase.(type) {
	case Creating:
		return WishCreate
	case Deleting:
		return WishRemove
	case Ready:
		switch {
		case r != nil && r.State == ReplicaPlanned:
			return WishCreate // a replica that is being added
		case r != nil && r.State == ReplicaLeaving && s.level2() && r.Size > 0 && !v.hasCopy():
			return WishKeep // it was made, and may be the last copy (S71)
		case r != nil && r.State == ReplicaLeaving:
			return WishRemove
		}
	case Failed:
	}
	return WishKeep
}
