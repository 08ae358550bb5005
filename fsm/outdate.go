package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applyOutdate answers a primary that lost its peer, or is about to become primary
// without it. Only the holder of the grant may go on, and only with a disk that has
// everything (S8); each yes is a new entry and a new generation, also when the peer
// is outdated already (S7). A replica that was outdated itself is told so: it lost (S6).
func applyOutdate(s *State, m Meta, c *fsmpb.Outdate) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.publishable(c.GetVolumeId())
	if rej != nil {
		return nil, rej
	}
	n, rej := s.bootOf(c.GetNodeId(), c.GetHostId(), c.GetBootId())
	if rej != nil {
		return nil, rej
	}
	if v.Replication == nil {
		return nil, Reject(Precondition, "outdate the peer of volume %s: it is not replicated", v.ID)
	}
	seen := ReplicaSeenFrom(c.GetSeen())
	out := &fsmpb.Outcome{VolumeId: string(v.ID), Verdict: s.verdict(v, n, c.GetGeneration(), seen), Generation: v.Replication.Generation}
	if out.Verdict != fsmpb.Verdict_VERDICT_PEER_OUTDATED {
		return out, nil
	}
	now, counts := s.withSeen(v, n, seen)
	if !counts {
		now = v.withReplication()
	}
	now.Replication.Generation = m.Index
	now.Replication.leg(n.Host).UpToDate = true
	if o := now.Replication.other(n.Host); o != nil {
		o.outdated()
		o.Alone = KnownUUID{}
	}
	s.putVolume(now)
	out.Generation = m.Index
	return out, nil
}

// verdict is the answer of S6. A host in adoption mode stays as it is (S1).
func (s *State) verdict(v *Volume, n *Node, generation uint64, seen ReplicaSeen) fsmpb.Verdict {
	own := v.Leg(n.Host)
	switch {
	case own == nil || own.Outdated:
		return fsmpb.Verdict_VERDICT_SELF_OUTDATED
	case s.Holder(v) != n.Host || n.Incarnation != s.cluster.Incarnation:
		return fsmpb.Verdict_VERDICT_REFUSED
	case generation != v.Replication.Generation || !own.matches(n, seen):
		return fsmpb.Verdict_VERDICT_STALE
	case !v.Replication.whole(own, seen):
		return fsmpb.Verdict_VERDICT_REFUSED
	}
	return fsmpb.Verdict_VERDICT_PEER_OUTDATED
}

// whole tells whether the holder's own disk has everything. A diskless primary must
// not outdate the only good copy. A primary whose disk its kernel calls up to date
// has everything, whether the log heard of the end of its resynchronisation or not;
// one that is just being promoted has what its grant says.
func (r *Replication) whole(own *Leg, seen ReplicaSeen) bool {
	failed := own.Seen.Disk == fsmpb.DiskState_DISK_STATE_DISKLESS || own.Seen.Disk == fsmpb.DiskState_DISK_STATE_FAILED
	if failed || own.DiskFailed != 0 && own.DiskFailed == own.Attach {
		return false // it failed in this attachment: what was asked is older
	}
	switch seen.Disk {
	case fsmpb.DiskState_DISK_STATE_UP_TO_DATE:
		return own.UpToDate || seen.Primary
	case fsmpb.DiskState_DISK_STATE_CONSISTENT, fsmpb.DiskState_DISK_STATE_OUTDATED:
		return own.UpToDate && !seen.Primary
	}
	return false
}
