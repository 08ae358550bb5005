package fsm

import "iter"

// Snapshot is a snapshot in any phase.
func (s *State) Snapshot(id SnapshotID) (*Snapshot, bool) {
	r, ok := s.snapshots.byID.Get(id)
	if !ok {
		return nil, false
	}
	return s.snapshotWithSweeps(&r.Snapshot)
}

// SnapshotByName is the live snapshot (not deleting) of that name at a site (S33). Members of a
// group have no name of their own.
func (s *State) SnapshotByName(site Site, name string) (*Snapshot, bool) {
	id, ok := s.snapshots.index.names.Get(scopedName{site, name})
	if !ok {
		return nil, false
	}
	n, ok := s.Snapshot(id)
	if !ok || n.liveName() != (scopedName{site, name}) {
		return nil, false
	}
	return n, true
}

// Snapshots yields all snapshots with an id above after, in order, in all phases.
func (s *State) Snapshots(after SnapshotID) iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.snapshots.byID.Ascend(after, func(id SnapshotID, r *storedSnapshot) bool {
			if id == after {
				return true
			}
			n, ok := s.snapshotWithSweeps(&r.Snapshot)
			return !ok || yield(n)
		})
	}
}

// SnapshotCount is the number of snapshots in all phases.
func (s *State) SnapshotCount() int { return s.snapshots.byID.Len() }

// SnapshotsOf yields a volume's snapshots with an id above after, in order.
func (s *State) SnapshotsOf(source VolumeID, after SnapshotID) iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.snapshots.index.bySource.Ascend(idPair{string(source), string(after)}, func(p idPair) bool {
			if p.subject != string(source) {
				return false
			}
			n, ok := s.Snapshot(SnapshotID(p.id))
			return !ok || n.ID == after || yield(n)
		})
	}
}

// SnapshotsOn yields the snapshots that the host keeps or must remove, in order of id.
func (s *State) SnapshotsOn(node NodeID) iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.snapshots.index.byNode.Ascend(idPair{subject: string(node)}, func(p idPair) bool {
			if p.subject != string(node) {
				return false
			}
			n, ok := s.Snapshot(SnapshotID(p.id))
			return !ok || n.Gone || yield(n)
		})
	}
}

// GroupSnapshot is a group snapshot in any phase.
func (s *State) GroupSnapshot(id GroupSnapshotID) (*GroupSnapshot, bool) {
	r, ok := s.snapshots.groups.Get(id)
	if !ok {
		return nil, false
	}
	if !s.groupRemains(&r.GroupSnapshot) {
		return nil, false
	}
	return &r.GroupSnapshot, true
}

// GroupSnapshotByName is the live group snapshot (not deleting) of that name at a site (S33).
func (s *State) GroupSnapshotByName(site Site, name string) (*GroupSnapshot, bool) {
	id, ok := s.snapshots.index.groupNames.Get(scopedName{site, name})
	if !ok {
		return nil, false
	}
	return s.GroupSnapshot(id)
}

// GroupSnapshots yields all group snapshots with an id above after, in order of id.
func (s *State) GroupSnapshots(after GroupSnapshotID) iter.Seq[*GroupSnapshot] {
	return func(yield func(*GroupSnapshot) bool) {
		s.snapshots.groups.Ascend(after, func(id GroupSnapshotID, r *storedGroup) bool {
			return id == after || !s.groupRemains(&r.GroupSnapshot) || yield(&r.GroupSnapshot)
		})
	}
}

// SnapshotOperations yields the snapshots that have an operation of their own, in
// order of operation id.
func (s *State) SnapshotOperations() iter.Seq[*Snapshot] {
	return func(yield func(*Snapshot) bool) {
		s.snapshots.index.operations.Scan(func(_ uint64, id SnapshotID) bool {
			n, ok := s.Snapshot(id)
			return !ok || n.Operation == nil || yield(n)
		})
	}
}

// SnapshotOperation finds the snapshot that has this operation.
func (s *State) SnapshotOperation(id OperationID) (*Snapshot, bool) {
	snapshot, ok := s.snapshots.index.operations.Get(uint64(id))
	if !ok {
		return nil, false
	}
	n, ok := s.Snapshot(snapshot)
	if !ok || n.Operation == nil || uint64(n.Operation.ID) != uint64(id) {
		return nil, false
	}
	return n, true
}

// GroupOperation finds the group snapshot that has this operation.
func (s *State) GroupOperation(id OperationID) (*GroupSnapshot, bool) {
	group, ok := s.snapshots.index.groupOperations.Get(uint64(id))
	if !ok {
		return nil, false
	}
	return s.GroupSnapshot(group)
}

// members are the group's snapshots that are in the state, in order of their sources.
func (s *State) members(g *GroupSnapshot) []*Snapshot {
	all := make([]*Snapshot, 0, len(g.Members))
	for _, id := range g.Members {
		if n, ok := s.Snapshot(id); ok {
			all = append(all, n)
		}
	}
	return all
}

// SourceSize is the size in bytes of what a volume is, or would be, made from;
// false when it is not in the state.
func (s *State) SourceSize(from Source) (int64, bool) {
	if from.Snapshot != "" {
		if n, ok := s.Snapshot(from.Snapshot); ok {
			return n.Size, true
		}
		return 0, false
	}
	if v, ok := s.Volume(from.Volume); ok {
		return v.Size, true
	}
	return 0, false
}
