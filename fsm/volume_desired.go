package fsm

import "iter"

// DesiredVolume is what the log wants of a host for a volume; false when it wants nothing.
func (s *State) DesiredVolume(node NodeID, volume VolumeID) (DesiredVolume, bool) {
	n, ok := s.Node(node)
	if !ok || n.State == NodeLost {
		return DesiredVolume{}, false
	}
	v, ok := s.Volume(volume)
	if !ok {
		return DesiredVolume{}, false
	}
	return s.desiredVolume(n, v)
}

// DesiredVolumes yields all wishes for a host in order of volume id.
func (s *State) DesiredVolumes(node NodeID) iter.Seq[DesiredVolume] {
	return func(yield func(DesiredVolume) bool) {
		n, ok := s.Node(node)
		if !ok || n.State == NodeLost {
			return
		}
		for v := range s.VolumesOn(node) {
			if d, ok := s.desiredVolume(n, v); ok && !yield(d) {
				return
			}
		}
	}
}

// wish is addressed to the host, not to the name: a host that was installed again
// under an old name finds nothing here that its predecessor owed (S17).
func (s *State) desiredVolume(n *Node, v *Volume) (DesiredVolume, bool) {
	r, teardown := v.Replica(n.Host), v.Teardown(n.Host)
	p := v.Publication(n.ID)
	if p != nil && p.Host != n.Host {
		p = nil
	}
	if r == nil && teardown == nil && p == nil {
		return DesiredVolume{}, false
	}
	d := DesiredVolume{Volume: v.ID, Size: v.Size, Goal: s.goal(n, v, r), Format: v.Format, Publication: p, Teardown: teardown, Limits: v.Limits}
	if d.Goal == GoalCreate && v.isMadeFromSource(n.Host) {
		d.Source = v.Source
		d.SourceSize, _ = s.SourceSize(v.Source)
	}
	d.Replication = s.desiredReplica(n, v)
	if r != nil {
		d.Pool, d.Sequence, d.ReplicaState = r.Pool, r.Sequence, r.State
	}
	d.Operation, d.Attempt = v.operationFor(n.Host).ref()
	d.ModifyOperation, d.ModifyAttempt = v.OperationOf(OpModify).ref()
	return d, true
}

// verb is what may be done to the device: creation belongs to Creating, deletion
// is said by Deleting, and both by a replica that a Ready volume gets or gives up (S14), and neither is asked of a host in adoption mode (S1).
func (s *State) goal(n *Node, v *Volume, r *Replica) Goal {
	if n.Incarnation != s.cluster.Incarnation {
		return GoalKeep
	}
	switch v.Phase.(type) {
	case Creating:
		return GoalCreate
	case Deleting:
		return GoalRemove
	case Ready:
		switch {
		case r != nil && r.State == ReplicaPlanned:
			return GoalCreate // a replica that is being added
		case r != nil && r.State == ReplicaLeaving && s.level2() && r.Size > 0 && !v.hasGoodCopy():
			return GoalKeep // it was made, and may be the last copy (S71)
		case r != nil && r.State == ReplicaLeaving:
			return GoalRemove
		}
	case Failed:
	}
	return GoalKeep
}
