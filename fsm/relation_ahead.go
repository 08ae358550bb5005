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
	older := slices.IndexFunc(behind, func(v *Volume) bool { return !v.RelationMember.Ahead })
	newer := slices.IndexFunc(p.members, func(v *Volume) bool { return v.RelationMember.Ahead && plans[v.ID].revertTo == "" })
	if older < 0 || newer < 0 {
		return nil
	}
	return Reject(Busy, "promote %s: site %s died while it was copied: volume %s was brought up to date before, and volume %s was not, "+
		"so they would be of two instants, and force is not the answer. What each had before is kept, as `holdfast volumes kept` shows: make volumes of that; "+
		"or accept the two instants with `holdfast groups promote --force --separately`", p.name(), p.other, p.members[newer].ID, behind[older].ID)
}
