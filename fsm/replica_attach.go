package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applyAttachReplica records that a host is about to attach its disk. The replica is then
// not up to date until it was observed connected and UpToDate with its peer (S5): the kernel
// detaches a failed disk by itself, so it may miss what was written meanwhile.
func applyAttachReplica(s *State, _ Meta, c *fsmpb.AttachReplica) (*fsmpb.Outcome, *Rejection) {
	v, n, rej := s.replicaForCommand(c, "attach")
	if rej != nil {
		return nil, rej
	}
	l := v.ActiveReplica(n.Host)
	switch {
	case c.GetAttach() == l.Attachment && l.Boot == n.Boot && l.Attachment != 0:
		return &fsmpb.Outcome{VolumeId: string(v.ID), Generation: v.Replication.Generation}, nil
	case c.GetAttach() <= l.Attachment:
		return nil, Reject(StaleEpoch, "attach volume %s on node %s: attachment %d is not above %d", v.ID, n.ID, c.GetAttach(), l.Attachment)
	}
	updated := v.withReplication()
	l = updated.ActiveReplica(n.Host)
	if s.level2() && updated.Replication.InitialSyncIndex != 0 {
		l.noteFailedAttach(c)
	}
	l.UpToDate, l.Boot, l.Attachment, l.Observed = false, n.Boot, c.GetAttach(), ReplicaObservation{}
	s.putVolume(updated)
	return &fsmpb.Outcome{VolumeId: string(v.ID), Generation: v.Replication.Generation}, nil
}

// noteFailedAttach: a disk that failed is blank when it is attached again, so that all of it is copied. One
// that is attached as it is, because an operator decided so, lacks the same blocks: it failed
// in this attachment too, and no connection makes it whole (S67).
func (l *ReplicaSync) noteFailedAttach(c *fsmpb.AttachReplica) {
	switch failed := l.DiskFailed != 0; {
	case failed && !c.GetBlank():
		l.DiskFailed = c.GetAttach()
	case !failed && c.GetBlank():
		l.DiskFailed = l.Attachment // as its own host knew, which has seen to it
	}
}

// replicaCommand is what the commands of a replica's host have in common.
type replicaCommand interface {
	GetVolumeId() string
	GetNodeId() string
	GetHostId() string
	GetBootId() string
}

// replicaForCommand finds a replicated volume, and the host that has an active replica of it:
// in its current boot, and adopted for this incarnation (S1, S2).
func (s *State) replicaForCommand(c replicaCommand, action string) (*Volume, *Node, *Rejection) {
	v, ok := s.Volume(VolumeID(c.GetVolumeId()))
	if !ok {
		return nil, nil, Reject(NotFound, "%s a replica: volume %s is not known", action, clip(c.GetVolumeId()))
	}
	n, rej := s.nodeOfBoot(c.GetNodeId(), c.GetHostId(), c.GetBootId())
	if rej != nil {
		return nil, nil, rej
	}
	switch v.Phase.(type) {
	case Deleting:
		return nil, nil, Reject(NotFound, "%s a replica: volume %s is being deleted", action, v.ID)
	case Failed:
		return nil, nil, Reject(Precondition, "%s a replica: volume %s failed", action, v.ID)
	case Creating, Ready:
	}
	switch {
	case v.ActiveReplica(n.Host) == nil:
		return nil, nil, Reject(Precondition, "%s volume %s: node %s has no replica of it", action, v.ID, n.ID)
	case n.IsFenced():
		return nil, nil, Reject(Precondition, "%s volume %s: node %s is fenced", action, v.ID, n.ID)
	case n.Incarnation != s.cluster.Incarnation:
		return nil, nil, Reject(Precondition, "%s volume %s: node %s is in adoption mode until an operator adopts it", action, v.ID, n.ID)
	}
	return v, n, nil
}
