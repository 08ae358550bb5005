package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyOutdate answers a host that requests to outdate its peer, as it is primary and lost
// the connection, or is about to be promoted without it. Only the host that has the grant
// may continue, and only with a disk that has every write (S8); each such verdict is a new
// entry and a new generation, also when the peer is outdated already (S7). A replica that
// was outdated itself gets the verdict SELF_OUTDATED (S6).
func applyOutdate(s *State, m Meta, c *fsmpb.Outdate) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.readyVolume(c.GetVolumeId())
	if rej != nil {
		return nil, rej
	}
	n, rej := s.nodeOfBoot(c.GetNodeId(), c.GetHostId(), c.GetBootId())
	if rej != nil {
		return nil, rej
	}
	if v.Replication == nil {
		return nil, Reject(Precondition, "outdate the peer of volume %s: it is not replicated", v.ID)
	}
	observed := ReplicaObservationFrom(c.GetSeen())
	out := &fsmpb.Outcome{VolumeId: string(v.ID), Verdict: s.verdict(v, n, c.GetGeneration(), observed), Generation: v.Replication.Generation}
	out.Verdict = s.verdictTogether(m, v, out.Verdict, !observed.Primary)
	if out.Verdict != fsmpb.Verdict_VERDICT_PEER_OUTDATED {
		return out, nil
	}
	updated, counts := s.withObservation(v, n, observed)
	if !counts {
		updated = v.withReplication()
	}
	updated.Replication.Generation = m.Index
	updated.ActiveReplica(n.Host).UpToDate = true
	s.endForcedElsewhere(updated.Replication, n.Host)
	if o := updated.PeerReplica(n.Host); o != nil {
		was := *o.ReplicaSync
		o.markOutdated(v.Crypt)
		o.SoloPrimaryUUID = RecordedUUID{}
		s.noteOutdated(&updated, o, was)
	}
	s.putVolume(updated)
	out.Generation = m.Index
	return out, nil
}

// verdict is the answer of S6. A host in adoption mode is refused (S1), and so is one that is fenced: it
// ends as one that lost (S58).
func (s *State) verdict(v *Volume, n *Node, generation uint64, observed ReplicaObservation) fsmpb.Verdict {
	own := v.ActiveReplica(n.Host)
	switch {
	case own != nil && plantedbug.Is(plantedbug.LoserGoesOn):
		return fsmpb.Verdict_VERDICT_PEER_OUTDATED
	case own == nil || own.Outdated:
		return fsmpb.Verdict_VERDICT_SELF_OUTDATED
	case s.PrimaryHost(v) != n.Host || n.IsFenced() || n.Incarnation != s.cluster.Incarnation:
		return fsmpb.Verdict_VERDICT_REFUSED
	case generation != v.Replication.Generation || !own.isOfAttachment(n, observed):
		return fsmpb.Verdict_VERDICT_STALE
	case !v.Replication.hasEveryWrite(own, observed):
		return fsmpb.Verdict_VERDICT_REFUSED
	}
	return fsmpb.Verdict_VERDICT_PEER_OUTDATED
}

// hasEveryWrite tells whether the requesting host's own disk has every write. A diskless
// primary must not outdate the only good copy. A primary whose disk its kernel calls
// UpToDate has every write, even if the end of its resynchronisation was not recorded yet;
// one that is just being promoted has what is recorded with its grant.
func (r *Replication) hasEveryWrite(own *Replica, observed ReplicaObservation) bool {
	if plantedbug.Is(plantedbug.DisklessOutdates) {
		return true
	}
	failed := own.Observed.Disk == fsmpb.DiskState_DISK_STATE_DISKLESS || own.Observed.Disk == fsmpb.DiskState_DISK_STATE_FAILED
	if failed || own.DiskFailed != 0 && own.DiskFailed == own.Attachment {
		return false // it failed in this attachment: the observation in the request is older
	}
	switch observed.Disk {
	case fsmpb.DiskState_DISK_STATE_UP_TO_DATE:
		return own.UpToDate || observed.Primary
	case fsmpb.DiskState_DISK_STATE_CONSISTENT, fsmpb.DiskState_DISK_STATE_OUTDATED:
		return own.UpToDate && !observed.Primary
	case fsmpb.DiskState_DISK_STATE_INCONSISTENT:
		return own.UpToDate && !observed.Primary && r.isReverted(own.Host)
	}
	return false
}
