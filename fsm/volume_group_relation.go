package fsm

import (
	"bytes"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A replicated group has a name at each site that uses it, and is changed through its primary. Through the other
// site its orchestrator may say what it is already, or that it does not want it any more (S37).

// nameAt is the group's name at a site, and the fingerprint of its parameters there; false where it has none.
func (g *VolumeGroup) nameAt(site Site) (name string, fingerprint []byte, ok bool) {
	if g.Origin == site && g.Name != "" {
		return g.Name, g.Fingerprint, true
	}
	for _, n := range g.Names {
		if n.Site == site {
			return n.Name, n.Fingerprint, true
		}
	}
	return "", nil, false
}

// IsOf tells whether the group is one of the site's: it has a name there, or is replicated to it.
func (g *VolumeGroup) IsOf(site Site) bool {
	_, _, named := g.nameAt(site)
	return named || g.Origin == site || g.Relation != nil && g.Relation.has(site)
}

// UsedAt tells whether the site's orchestrator has the group: it named it, or asked for its replication, and did not
// end that.
func (g *VolumeGroup) UsedAt(site Site) bool {
	_, _, named := g.nameAt(site)
	return named || g.Relation != nil && g.Relation.claims(site)
}

// withoutName is the group without a name at a site.
func (g *VolumeGroup) withoutName(site Site) VolumeGroup {
	updated := *g
	if g.Origin == site {
		updated.Name = ""
	}
	updated.Names = slices.DeleteFunc(slices.Clone(g.Names), func(n GroupName) bool { return n.Site == site })
	if len(updated.Names) == 0 {
		updated.Names = nil
	}
	return updated
}

// withName is the group with a name at a site.
func (g *VolumeGroup) withName(n GroupName) VolumeGroup {
	updated := g.withoutName(n.Site)
	if g.Origin == n.Site {
		updated.Name, updated.Fingerprint = n.Name, n.Fingerprint
		return updated
	}
	updated.Names = append(updated.Names, n)
	slices.SortFunc(updated.Names, func(a, b GroupName) int { return compareSites(a.Site, b.Site) })
	return updated
}

// replicatedGroupOf is the replicated group that has exactly these members, and no name at the site yet; nil when there is
// none.
func (s *State) replicatedGroupOf(site Site, members []VolumeID) *VolumeGroup {
	if len(members) == 0 {
		return nil
	}
	g, ok := s.VolumeGroup(s.GroupOf(members[0]))
	if !ok || g.Relation == nil || !g.Relation.has(site) || !slices.Equal(g.Members, members) {
		return nil
	}
	if _, _, named := g.nameAt(site); named {
		return nil
	}
	return g
}

// joinFromSite gives a replicated group the name that another site's orchestrator has for it, and records its claim.
func (s *State) joinFromSite(existing, requested *VolumeGroup, site Site) (*fsmpb.Outcome, *Rejection) {
	updated := existing.withName(GroupName{Site: site, Name: requested.Name, Fingerprint: requested.Fingerprint})
	claimed := updated.Relation.withClaim(site)
	updated.Relation = &claimed
	s.putVolumeGroup(updated)
	return updated.outcome(), nil
}

// joinAt answers with the group that has the name at a site, if it is what is asked for.
func (g *VolumeGroup) joinAt(site Site, requested *VolumeGroup) (*fsmpb.Outcome, *Rejection) {
	_, fingerprint, _ := g.nameAt(site)
	if !bytes.Equal(fingerprint, requested.Fingerprint) || !slices.Equal(g.Members, requested.Members) {
		return nil, Reject(Incompatible, "volume group %q exists with other volumes or other parameters", requested.Name)
	}
	return g.outcome(), nil
}

// secondaryOf tells whether a call is about a replicated group through a site that is not its primary, or about one that
// was replicated to the site and is at home elsewhere.
func (s *State) secondaryOf(g *VolumeGroup, at endpoint) bool {
	if g.Relation != nil {
		return at.named && !g.Relation.isPrimary(at.site)
	}
	_, _, named := g.nameAt(at.site)
	return at.named && named && len(g.liveNames()) > 1 && s.homeOf(g) != at.site
}

// wasReplicatedTo tells whether a group is of another site, and its volumes have, or had, replicas at the endpoint's: that site's
// orchestrator deleted what it had of the group, and repeats that. The site that made the group has no name of it then.
func (s *State) wasReplicatedTo(g *VolumeGroup, at endpoint) bool {
	if _, _, named := g.nameAt(at.site); !at.named || named || g.Relation != nil {
		return false
	}
	if g.Origin == at.site {
		return len(g.Members) == 0 || s.homeOf(g) != at.site
	}
	return slices.ContainsFunc(g.Members, func(id VolumeID) bool {
		v, ok := s.Volume(id)
		return ok && v.Home != at.site && slices.Contains(v.Sites, at.site)
	})
}

// homeOf is where the group's volumes are at home; that of a group without any is where it was made.
func (s *State) homeOf(g *VolumeGroup) Site {
	for _, id := range g.Members {
		if v, ok := s.Volume(id); ok {
			return v.Home
		}
	}
	return g.Origin
}

// endGroupClaim is what a change of a group through another site than its primary may do: end that site's claim.
func (s *State) endGroupClaim(m Meta, g *VolumeGroup, action string) *Rejection {
	x := s.sourceOf(string(g.ID))
	switch {
	case g.Relation == nil:
		return nil
	case x == nil:
		return Reject(Busy, "%s volume group %s: one of its volumes is being changed; retry", action, g.ID)
	case g.Relation.Move != nil:
		return Reject(Busy, "%s volume group %s: its role is moving to site %s", action, g.ID, g.Relation.Move.To)
	case x.endsWith(m.site):
		return Reject(Precondition, "%s volume group %s: it is demoted at both its sites, and no other one claims it: disable its replication first", action, g.ID)
	}
	return nil
}

// modifyFromSecondary: the same members, or none, which ends the site's claim.
func (s *State) modifyFromSecondary(m Meta, g *VolumeGroup, members []VolumeID) (*fsmpb.Outcome, *Rejection) {
	if len(members) > 0 {
		return nil, Reject(Precondition, "modify volume group %s: it is replicated, and is changed through its primary only", g.ID)
	}
	if rej := s.endGroupClaim(m, g, "modify"); rej != nil {
		return nil, rej
	}
	if g.Relation != nil && slices.Contains(g.Relation.Claims, m.site) {
		updated, ended := *g, g.Relation.withoutClaim(m.site)
		updated.Relation = &ended
		s.putVolumeGroup(updated)
	}
	return g.outcome(), nil
}

// deleteFromSecondary ends the site's claim and its name; the group, its volumes and their data stay.
func (s *State) deleteFromSecondary(m Meta, g *VolumeGroup) (*fsmpb.Outcome, *Rejection) {
	if rej := s.endGroupClaim(m, g, "delete"); rej != nil {
		return nil, rej
	}
	updated := g.withoutName(m.site)
	if g.Relation != nil {
		ended := g.Relation.withoutClaim(m.site)
		updated.Relation = &ended
	}
	s.putVolumeGroup(updated)
	return g.outcome(), nil
}

// isUsedBy tells whether a site has a name for the group, or a claim on its replication.
func (g *VolumeGroup) isUsedBy(site Site) bool {
	_, _, named := g.nameAt(site)
	return named || slices.Contains(g.Relation.Claims, site)
}

// changeReplicatedMembers enables what joins a replicated group, and disables what leaves it, with the entry that
// changes the group (S53).
func (s *State) changeReplicatedMembers(m Meta, before *VolumeGroup, updated VolumeGroup) *Rejection {
	if !before.Relation.Promoted {
		return Reject(Precondition, "modify volume group %s: it is demoted at both its sites, or its role is moving: promote it first", before.ID)
	}
	m.endpoint = endpoint{site: before.Relation.Primary, named: true}
	joining, rej := s.membersBeside(updated.Members, before.Members)
	if rej != nil {
		return rej
	}
	leaving, rej := s.membersBeside(before.Members, updated.Members)
	if rej != nil {
		return rej
	}
	joined := (&replicationSource{s: s, group: before, members: joining, relation: before.Relation}).edit()
	if rej := s.enableMembers(m, joined, &fsmpb.EnableReplication{Protocol: s.protocolOf(before)}); rej != nil {
		if rej.Reason == Precondition {
			rej.Reason = Invalid
		}
		return rej
	}
	left := (&replicationSource{s: s, members: leaving, relation: before.Relation}).edit()
	for i, v := range leaving {
		if rej := s.checkDisable(v, m.site, true); rej != nil {
			return rej
		}
		gone := s.withoutRelation(m, v)
		gone.renumber(OpReplicaChange, m.Index, v.Created.Index)
		*left.volume(i) = gone
	}
	s.putVolumeGroup(updated)
	joined.putVolumes()
	left.putVolumes()
	s.endAheadOf(&updated)
	return nil
}

// protocolOf is the one by which the members of a replicated group are connected.
func (s *State) protocolOf(g *VolumeGroup) fsmpb.Protocol {
	for _, id := range g.Members {
		if v, ok := s.Volume(id); ok && v.Replication != nil && v.RelationMember != nil {
			return v.Replication.Protocol
		}
	}
	return fsmpb.Protocol_PROTOCOL_UNKNOWN
}

// membersBeside are the volumes of the first list that are not in the second, but for those that failed: they are
// not replicated any more.
func (s *State) membersBeside(ids, others []VolumeID) (all []*Volume, rej *Rejection) {
	for _, id := range ids {
		if _, both := slices.BinarySearch(others, id); both {
			continue
		}
		if v, ok := s.Volume(id); ok && v.isContentLost() {
			continue
		}
		v, rej := s.presentVolume(string(id))
		if rej != nil {
			return nil, rej
		}
		all = append(all, v)
	}
	return all, nil
}
