package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// Members of a group are of one instant at the site that is left behind: a verdict that lets one of them go on alone
// is held back until no other one that is in use is connected to its peer (S52). The question that comes first has
// all of them disconnect.

// verdictTogether holds a verdict back, or lets it pass. One that is being promoted has not begun to write, and its grant
// may have outdated its peer already.
func (s *State) verdictTogether(m Meta, v *Volume, verdict fsmpb.Verdict, promoting bool) fsmpb.Verdict {
	if verdict != fsmpb.Verdict_VERDICT_PEER_OUTDATED || v.Relation != nil || v.Replication.Protocol == fsmpb.Protocol_PROTOCOL_A {
		return verdict
	}
	relation := s.RelationOf(v)
	if relation == nil || relation.Separately {
		return verdict
	}
	x := s.sourceOf(string(s.GroupOf(v.ID)))
	goesOn := s.replicatesWrites(v) || promoting && x != nil && x.othersInUseReplicate(v.ID)
	if x == nil || !goesOn || plantedbug.Is(plantedbug.MemberGoesOnAlone) {
		return verdict
	}
	if relation.Cut == 0 && x.othersReplicate(v.ID) {
		x.beginCut(m, v.ID)
		return fsmpb.Verdict_VERDICT_PENDING
	}
	if !x.othersCut(v.ID) {
		return fsmpb.Verdict_VERDICT_PENDING
	}
	return verdict
}

// beginCut asks the hosts of all members to disconnect; what they observed before proves nothing, as a connection that was
// lost comes back by itself.
func (x *replicationSource) beginCut(m Meta, asker VolumeID) {
	e := x.edit()
	e.relation.Cut = m.Index
	for i, v := range e.members {
		switch {
		case v.ID == asker:
			*e.volume(i) = x.s.cutAsAsker(v, m.Index)
		case x.s.replicatesWrites(v):
			updated := v.withReplication()
			updated.Replication.Generation = m.Index
			updated.noteCutWith(m.Index)
			*e.volume(i) = updated
		}
	}
	e.put()
}

// cutAsAsker: its primary writes nothing before it has its answer. Where it is being promoted, its grant may have outdated the peer
// already.
func (s *State) cutAsAsker(v *Volume, cut uint64) Volume {
	updated := v.withReplication()
	updated.noteCutWith(cut)
	if o := updated.PeerReplica(s.PrimaryHost(v)); o != nil && o.Outdated && o.CutIndex == v.Replication.LastGrantIndex {
		o.CutIndex = cut
	}
	return updated
}

func (v *Volume) noteCutWith(cut uint64) {
	m := v.RelationMember.clone()
	m.CutWith = cut
	v.RelationMember = m
}

// othersReplicate tells whether another member's writes may reach its peer.
func (x *replicationSource) othersReplicate(asker VolumeID) bool {
	return slices.ContainsFunc(x.members, func(v *Volume) bool { return v.ID != asker && x.s.replicatesWrites(v) })
}

// othersInUseReplicate is othersReplicate without those of which only a former primary may write: where the role was taken from
// a site that cannot be asked, what goes on is not held back for what that site may still do.
func (x *replicationSource) othersInUseReplicate(asker VolumeID) bool {
	return slices.ContainsFunc(x.members, func(v *Volume) bool {
		return v.ID != asker && x.s.PrimaryHost(v) != "" && x.s.replicatesWrites(v)
	})
}

// othersCut tells whether every other member that a host may write to is known not to reach its peer.
func (x *replicationSource) othersCut(asker VolumeID) bool {
	return !slices.ContainsFunc(x.members, func(v *Volume) bool { return v.ID != asker && !x.s.isCut(v) })
}

// replicatesWrites tells whether a host may write to the volume, and its peer, which is not outdated, may receive that.
func (s *State) replicatesWrites(v *Volume) bool { return len(s.replicatingWriters(v)) > 0 }

// replicatingWriters are the replicas whose hosts may write: the primary's, and those whose use was revoked and did not
// end yet, fenced or unreachable. One that has no content of its own reads through its peer, and cannot go on without it:
// it is not cut, and a promotion by force of what the others have does without it (checkOneInstant).
func (s *State) replicatingWriters(v *Volume) (writers []*Replica) {
	primary := s.PrimaryHost(v)
	for _, l := range v.ActiveReplicas() {
		peer := v.PeerReplica(l.Host)
		switch former := v.Teardown(l.Host) != nil; {
		case l.Host != primary && !former, l.Outdated, peer == nil, !peer.getsWrites():
		case l.Host == primary && l.readsThroughPeer():
		default:
			writers = append(writers, l)
		}
	}
	return writers
}

// readsThroughPeer: it is primary without a whole disk of its own.
func (l *ReplicaSync) readsThroughPeer() bool {
	x := &l.Observed
	lacks := x.Primary && x.Disk != fsmpb.DiskState_DISK_STATE_UNKNOWN && x.Disk <= fsmpb.DiskState_DISK_STATE_INCONSISTENT
	return lacks || l.failedNow()
}

// isCut: nobody's writes reach a peer that counts, or one of the two hosts observed in the current generation that its
// kernel is disconnected and does not connect again by itself.
func (s *State) isCut(v *Volume) bool {
	for _, l := range s.replicatingWriters(v) {
		if !s.isSevered(v, l) && !s.isSevered(v, v.PeerReplica(l.Host)) {
			return false
		}
	}
	return true
}

// staysCut: the volume's hosts stay disconnected while its group is cut.
func (s *State) staysCut(v *Volume) bool {
	if l := v.ActiveReplica(s.PrimaryHost(v)); l != nil {
		return !l.readsThroughPeer()
	}
	return len(v.Teardowns) > 0
}

// isCutTogether: each member that a host may write to goes on without its peer, and what else may be written is cut. They
// connect again then, and the peers are brought up to date.
func (x *replicationSource) isCutTogether() bool {
	return !slices.ContainsFunc(x.members, func(v *Volume) bool {
		if x.s.PrimaryHost(v) == "" {
			return !x.s.isCut(v)
		}
		return x.s.replicatesWrites(v)
	})
}
