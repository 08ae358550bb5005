package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyDisableReplication ends the relation through the primary, and through another site that site's claim only:
// data, replicas and membership stay what they were (S37). What is not replicated is disabled already.
func applyDisableReplication(s *State, m Meta, c *fsmpb.DisableReplication) (*fsmpb.Outcome, *Rejection) {
	x, rej := s.replicationSource(c.GetSource(), c.GetReplicationId())
	switch {
	case rej != nil:
		return nil, rej
	case x.relation == nil:
		return x.outcome(), nil // a conversion that is being undone ends by itself
	case !m.named || !x.relation.has(m.site):
		return nil, Reject(Invalid, "disable replication of %s: it needs one of its sites, %s or %s", x.name(), x.relation.Sites[0], x.relation.Sites[1])
	case x.relation.Move != nil:
		return nil, Reject(Busy, "disable replication of %s: its role is moving to site %s", x.name(), x.relation.Move.To)
	}
	if rej := x.checkRole("disable replication of", c.GetRole()); rej != nil {
		return nil, rej
	}
	if !x.endsWith(m.site) {
		return x.endClaim(m)
	}
	return x.disable(m)
}

// endsWith tells whether the relation ends when the site disables it: it is primary, or nobody is and the other site
// does not claim it.
func (x *replicationSource) endsWith(site Site) bool {
	r := x.relation
	return r.isPrimary(site) || !r.Promoted && !slices.Contains(r.Claims, r.other(site))
}

// endClaim ends the claim of a site that is not the last one with one.
func (x *replicationSource) endClaim(m Meta) (*fsmpb.Outcome, *Rejection) {
	if slices.Contains(x.relation.Claims, m.site) {
		e := x.edit()
		e.relation = e.relation.withoutClaim(m.site)
		e.put()
	}
	return x.outcome(), nil
}

// disable ends the relation. Each volume is at home at the site from then on, whose replica must have everything.
func (x *replicationSource) disable(m Meta) (*fsmpb.Outcome, *Rejection) {
	for _, v := range x.members {
		if rej := x.s.checkDisable(v, m.site, x.relation.isPrimary(m.site)); rej != nil {
			return nil, rej
		}
	}
	e := x.edit()
	for i := range e.volumes {
		updated := x.s.withoutRelation(m, &e.volumes[i])
		if e.group != nil {
			updated.renumber(OpReplicaChange, m.Index, updated.Created.Index)
		}
		*e.volume(i) = updated
	}
	e.drop()
	return x.outcome(), nil
}

// checkDisable: what the site has is everything, and nothing that was given up by force waits for a decision.
func (s *State) checkDisable(v *Volume, site Site, primary bool) *Rejection {
	if v.converting() != nil {
		return v.checkConversionKnown("disable replication of")
	}
	local := s.replicaAt(v, site)
	switch m := v.RelationMember; {
	case m != nil && m.Apart:
		return Reject(Precondition, "disable replication of volume %s: site %s has data that were given up by force: resynchronise it there with force first", v.ID, m.ApartAt)
	case m != nil && v.isKeepDue(m.ApartHost) && !m.DiscardUnkept:
		return Reject(Busy, "disable replication of volume %s: what its replica on host %s has was given up by force, and is being kept before it is removed", v.ID, m.ApartHost)
	case v.isReverting():
		return Reject(Busy, "disable replication of volume %s: its replica is being reverted to a kept copy", v.ID)
	case local == nil || !local.UpToDate && s.whyNotComplete(v, local, true) != nil:
		reason := Precondition
		if primary {
			reason = Busy
		}
		return Reject(reason, "disable replication of volume %s: its replica at site %s is not known to be up to date", v.ID, site)
	case m != nil && m.Added && m.AddedAt != site && s.replicaAt(v, m.AddedAt) != nil && s.copyMadeFrom(v.ID, s.replicaAt(v, m.AddedAt).Node) != "":
		return Reject(Busy, "disable replication of volume %s: %s is being made from its replica at site %s", v.ID, s.copyMadeFrom(v.ID, s.replicaAt(v, m.AddedAt).Node), m.AddedAt)
	}
	return nil
}

// isKeepDue tells whether what the host's replica has is yet to be kept.
func (v *Volume) isKeepDue(host HostID) bool {
	l := v.ActiveReplica(host)
	return l != nil && l.KeepDue
}

// withoutRelation is the volume outside of any relation. The replica that was made for the relation is removed; one
// that was asked for when the volume was created stays, and so does the one that has the role.
func (s *State) withoutRelation(m Meta, v *Volume) Volume {
	updated, member := *v, v.RelationMember
	updated.RelationMember, updated.Home = nil, m.site
	if v.converting() != nil {
		if !v.converting().Undoing {
			s.undoConversion(m, &updated, "replication was disabled")
		}
		return updated
	}
	if v.Replication != nil {
		updated = updated.withReplication()
		updated.forgetSynced() // nobody keeps anything for the relation any more
	}
	if member == nil || !member.Added || member.AddedAt == m.site {
		return updated
	}
	added := s.replicaAt(v, member.AddedAt)
	updated = updated.withReplication()
	updated.Sites, updated.Replication.ReplicaCount = nil, 1
	if added != nil {
		updated = s.withReplicaLeaving(&updated, added, m.Index)
		s.beginReplicaChange(&updated, m)
	}
	return updated
}

// deleteReplicated ends the claim of a site that is not primary: the volume, its data and its snapshots stay (S37). It
// is deleted when its replication was disabled at the primary.
func (s *State) deleteReplicated(m Meta, v *Volume, relation *Relation) (*fsmpb.Outcome, *Rejection) {
	switch {
	case !m.named || relation.isPrimary(m.site):
		return nil, Reject(Precondition, "delete volume %s: it is replicated between the sites %s and %s: disable that first", v.ID, relation.Sites[0], relation.Sites[1])
	case relation.Move != nil:
		return nil, Reject(Busy, "delete volume %s: its role is moving to site %s", v.ID, relation.Move.To)
	case !relation.has(m.site):
		return nil, Reject(Precondition, "delete volume %s: it is at home at site %s", v.ID, v.Home)
	}
	x := &replicationSource{s: s, members: []*Volume{v}, relation: relation}
	if x.endsWith(m.site) {
		return nil, Reject(Precondition, "delete volume %s: it is demoted at both its sites, and no other one claims it: disable its replication first", v.ID)
	}
	if v.Relation == nil { // the claim is on the group
		return &fsmpb.Outcome{VolumeId: string(v.ID)}, nil
	}
	return x.endClaim(m)
}

// KeptByRelation tells whether a deletion through the site ended no more than that site's claim (S37).
func (s *State) KeptByRelation(id VolumeID, site string) bool {
	v, ok := s.Volume(id)
	if !ok || !s.level2() {
		return false
	}
	relation := s.RelationOf(v)
	return relation != nil && relation.has(SiteFrom(site)) && !relation.isPrimary(SiteFrom(site))
}
