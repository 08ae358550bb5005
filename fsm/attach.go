package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applyAttachReplica records that a host is about to attach its disk. From here on
// the replica is not up to date, until it was seen together with its peer (S5): the
// kernel asks nobody when a disk fails, so it may miss what was written meanwhile.
func applyAttachReplica(s *State, _ Meta, c *fsmpb.AttachReplica) (*fsmpb.Outcome, *Rejection) {
	v, n, rej := s.replicaOf(c, "attach")
	if rej != nil {
		return nil, rej
	}
	l := v.Leg(n.Host)
	switch {
	case c.GetAttach() == l.Attach && l.Boot == n.Boot && l.Attach != 0:
		return &fsmpb.Outcome{VolumeId: string(v.ID), Generation: v.Replication.Generation}, nil
	case c.GetAttach() <= l.Attach:
		return nil, Reject(StaleEpoch, "attach volume %s on node %s: attachment %d is not above %d", v.ID, n.ID, c.GetAttach(), l.Attach)
	}
	now := v.withReplication()
	l = now.Replication.leg(n.Host)
	l.UpToDate, l.Boot, l.Attach, l.Seen = false, n.Boot, c.GetAttach(), ReplicaSeen{}
	s.putVolume(now)
	return &fsmpb.Outcome{VolumeId: string(v.ID), Generation: v.Replication.Generation}, nil
}

// replicaLike is what the commands of a replica's host have in common.
type replicaLike interface {
	GetVolumeId() string
	GetNodeId() string
	GetHostId() string
	GetBootId() string
}

// replicaOf finds a replicated volume and the host, in its current boot, that has a
// leg of it and acts for this incarnation (S1, S2).
func (s *State) replicaOf(c replicaLike, what string) (*Volume, *Node, *Rejection) {
	v, ok := s.Volume(VolumeID(c.GetVolumeId()))
	if !ok {
		return nil, nil, Reject(NotFound, "%s a replica: volume %s is not known", what, clip(c.GetVolumeId()))
	}
	n, rej := s.bootOf(c.GetNodeId(), c.GetHostId(), c.GetBootId())
	if rej != nil {
		return nil, nil, rej
	}
	switch v.Phase.(type) {
	case Deleting:
		return nil, nil, Reject(NotFound, "%s a replica: volume %s is being deleted", what, v.ID)
	case Failed:
		return nil, nil, Reject(Precondition, "%s a replica: volume %s failed", what, v.ID)
	case Creating, Ready:
	}
	switch {
	case v.Leg(n.Host) == nil:
		return nil, nil, Reject(Precondition, "%s volume %s: node %s has no replica of it", what, v.ID, n.ID)
	case n.Incarnation != s.cluster.Incarnation:
		return nil, nil, Reject(Precondition, "%s volume %s: node %s is in adoption mode until an operator adopts it", what, v.ID, n.ID)
	}
	return v, n, nil
}
