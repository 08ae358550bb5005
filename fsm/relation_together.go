package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// Members of a group are of one instant at the site that is left behind: a verdict that lets one of them go on alone
// is held back until no other one that is in use is connected to its peer (S52). The question that comes first has
// all of them disconnect.

// verdictTogether holds a verdict back, or lets it pass.
func (s *State) verdictTogether(m Meta, v *Volume, verdict fsmpb.Verdict) fsmpb.Verdict {
	if verdict != fsmpb.Verdict_VERDICT_PEER_OUTDATED || v.Relation != nil || v.Replication.Protocol == fsmpb.Protocol_PROTOCOL_A {
		return verdict
	}
	relation := s.RelationOf(v)
	if relation == nil || relation.Separately {
		return verdict
	}
	x := s.sourceOf(string(s.GroupOf(v.ID)))
	if x == nil || x.othersCut(v.ID) || plantedbug.Is(plantedbug.MemberGoesOnAlone) {
		return verdict
	}
	if relation.Cut == 0 {
		x.beginCut(m, v.ID)
	}
	return fsmpb.Verdict_VERDICT_PENDING
}

// beginCut asks the hosts of all members to disconnect; what they observed before proves nothing.
func (x *replicationSource) beginCut(m Meta, asker VolumeID) {
	e := x.edit()
	e.relation.Cut = m.Index
	for i, v := range e.members {
		if v.ID == asker || x.s.PrimaryHost(v) == "" {
			continue
		}
		updated := v.withReplication()
		updated.Replication.Generation = m.Index
		*e.volume(i) = updated
	}
	e.put()
}

// othersCut tells whether every other member that a host may write to is known not to reach its peer.
func (x *replicationSource) othersCut(asker VolumeID) bool {
	for _, v := range x.members {
		if v.ID != asker && !x.s.isCut(v) {
			return false
		}
	}
	return true
}

// isCut: nobody may write to the volume, or its peer is outdated, or one of its hosts observed in the current
// generation that the two are not connected.
func (s *State) isCut(v *Volume) bool {
	primary := s.PrimaryHost(v)
	if primary == "" {
		return true
	}
	if peer := v.PeerReplica(primary); peer == nil || peer.Outdated {
		return true
	}
	for _, l := range v.ActiveReplicas() {
		n, ok := s.nodeOfReplica(l)
		if ok && l.isOfAttachment(n, l.Observed) && l.Observed.Generation == v.Replication.Generation && !l.Observed.Connected() {
			return true
		}
	}
	return false
}

// isCutTogether: each member that a host may write to goes on without its peer. They connect again then, and the
// peers are brought up to date.
func (x *replicationSource) isCutTogether() bool {
	for _, v := range x.members {
		primary := x.s.PrimaryHost(v)
		if primary == "" {
			continue
		}
		if peer := v.PeerReplica(primary); peer != nil && !peer.Outdated {
			return false
		}
	}
	return true
}
