package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

// While the members of a group are brought up to date, those that are done are ahead of the others: a promotion by force
// would make of them a group of two instants (S44, S52). What each had before is kept until all are done, and nothing
// but an operator's word promotes them meanwhile.

// isAhead tells whether the volume is ahead of others of its group.
func (s *State) isAhead(id VolumeID) bool {
	v, ok := s.Volume(id)
	return ok && v.RelationMember != nil && v.RelationMember.Ahead
}

// othersTogether are the other members of the volume's group where they are kept at one instant; none otherwise.
func (s *State) othersTogether(v *Volume) (others []*Volume) {
	relation := s.RelationOf(v)
	if relation == nil || v.Relation != nil || relation.Separately {
		return nil
	}
	g, _ := s.VolumeGroup(s.GroupOf(v.ID))
	for _, id := range g.Members {
		if m, ok := s.Volume(id); ok && id != v.ID && m.RelationMember != nil {
			others = append(others, m)
		}
	}
	return others
}

// noteAhead: the volume's replicas are up to date from here on. Those of the whole group are when the last one's are.
func (s *State) noteAhead(v *Volume) {
	if v.RelationMember == nil || !v.allInSync() || s.wasAllInSync(v.ID) {
		return
	}
	m := v.RelationMember.clone()
	m.Ahead = slices.ContainsFunc(s.othersTogether(v), func(o *Volume) bool { return !o.allInSync() })
	v.RelationMember = m
}

// endAhead: where the replicas of all members of the volume's group are up to date, none is ahead any more, and what they
// had before is not needed.
func (s *State) endAhead(id VolumeID) {
	v, ok := s.Volume(id)
	if !ok || v.RelationMember == nil {
		return
	}
	members := append(s.othersTogether(v), v)
	if slices.ContainsFunc(members, func(m *Volume) bool { return !m.allInSync() }) {
		return
	}
	for _, m := range members {
		if !m.RelationMember.Ahead {
			continue
		}
		updated, member := *m, m.RelationMember.clone()
		member.Ahead = false
		updated.RelationMember = member
		s.putVolume(updated)
		s.supersedeKeptCopies(m.ID)
	}
}

// endAheadOf is endAhead where a member left the group: it may have been the last one that was not up to date.
func (s *State) endAheadOf(g *VolumeGroup) {
	for _, id := range g.Members {
		s.endAhead(id)
	}
}

// endAheadAfterLoss is endAheadOf where a host was lost: what was lost with it is waited for no more.
func (s *State) endAheadAfterLoss() {
	for g := range s.VolumeGroups("") {
		if g.Relation != nil {
			s.endAheadOf(g)
		}
	}
}

// copyOfTheCut is what the host kept of a volume that is ahead of others of its group; nil: it is not, or nothing was kept.
func (s *State) copyOfTheCut(v *Volume, host HostID) *Snapshot {
	if v.RelationMember == nil || !v.RelationMember.Ahead {
		return nil
	}
	for _, n := range s.liveKeptCopiesOn(v.ID, host) {
		if n.KeptCopy.BeforeSync {
			return n
		}
	}
	return nil
}

// checkOneInstant refuses a forced promotion of members of which some are ahead of those that may lack writes: no replica
// is put back that has more, and a group of two instants is what its caller relies on not to get (S44).
func (p *sitePromotion) checkOneInstant(behind []*Volume, plans map[VolumeID]forcedReplica) *Rejection {
	if p.separately || p.group == nil || p.relation.Separately || plantedbug.Is(plantedbug.GroupPartlyNewer) {
		return nil
	}
	older := -1
	for i, v := range behind {
		if p.isOfTheCut(v, plans) && (older < 0 || p.cutOf(v) < p.cutOf(behind[older])) {
			older = i
		}
	}
	if older < 0 {
		return nil
	}
	newer := slices.IndexFunc(p.members, func(v *Volume) bool { return p.isNewer(v, plans, p.cutOf(behind[older])) })
	if newer < 0 {
		return nil
	}
	return Reject(Busy, "promote %s: site %s died while it was copied: volume %s was brought up to date before, and volume %s was not, "+
		"so they would be of two instants, and force is not the answer. What each had before is kept, as `holdfast volumes kept` shows: make volumes of that; "+
		"or accept the two instants with `holdfast groups promote --force --separately`", p.name(), p.other, p.members[newer].ID, behind[older].ID)
}

// cutOf is the index at which the member's replica here was left behind; 0: it was not.
func (p *sitePromotion) cutOf(v *Volume) uint64 {
	if l := p.s.replicaAt(v, p.m.site); l != nil && l.Outdated {
		return l.CutIndex
	}
	return 0
}

// isOfTheCut tells whether the member goes on with what it had when it was left behind: as it is, or from what was kept of that.
func (p *sitePromotion) isOfTheCut(v *Volume, plans map[VolumeID]forcedReplica) bool {
	l := p.s.replicaAt(v, p.m.site)
	goesBack := plans[v.ID].revertTo != ""
	return l.Outdated && (goesBack || !l.Copied)
}

// isNewer tells whether what the replica here goes on with is of a later instant than that cut: it was copied since, or was
// left behind later, or was not left behind at all and was used since. One that was ahead and goes back has what it was kept of the cut.
func (p *sitePromotion) isNewer(v *Volume, plans map[VolumeID]forcedReplica, cut uint64) bool {
	switch plan, forced := plans[v.ID]; {
	case p.s.replicaAt(v, p.m.site) == nil:
		return false
	case forced && p.isOfTheCut(v, plans):
		return p.cutOf(v) != cut && !(v.RelationMember.Ahead && plan.revertTo != "")
	case forced && p.cutOf(v) != 0, v.RelationMember.Ahead:
		return true
	}
	return v.Replication.Primary != nil || max(v.Replication.LastGrantIndex, v.RelationMember.UseEnded) > cut
}
