package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyResyncReplication lets the replicas of the endpoint's site take part again. It makes none of them a target:
// which one has everything is the log's word (S47). Only content that was given up by force is discarded by it, with
// force, and is kept first (S48).
func applyResyncReplication(s *State, m Meta, c *fsmpb.ResyncReplication) (*fsmpb.Outcome, *Rejection) {
	x, rej := s.enabledSource(m, "resync", c.GetSource(), c.GetReplicationId())
	switch {
	case rej != nil:
		return nil, rej
	case x.relation.isPrimary(m.site):
		return nil, Reject(Precondition, "resync %s at site %s: it is primary there, and is demoted first", x.name(), m.site)
	case x.relation.Move != nil:
		return nil, Reject(Busy, "resync %s at site %s: its role is moving to site %s", x.name(), m.site, x.relation.Move.To)
	}
	if rej := x.checkRole("resync", c.GetRole()); rej != nil {
		return nil, rej
	}
	e := x.edit()
	changed := x.relation.ousted(m.site) != nil
	e.relation = e.relation.withoutOusted(m.site)
	for i, v := range e.members {
		apart := v.isApart(m.site)
		if !c.GetForce() && !plantedbug.Is(plantedbug.ApartWithoutForce) || !apart && !(c.GetDiscardUnkept() && s.waitsToBeKept(v, m.site)) {
			continue
		}
		changed = true
		member := v.RelationMember.clone()
		member.DiscardUnkept = c.GetDiscardUnkept() || x.relation.DiscardUnkept
		if apart {
			member.Apart, member.ApartAt = false, ""
		}
		updated := v.withReplication()
		updated.RelationMember, updated.Replication.Generation = member, m.Index
		if own := s.replicaAt(&updated, m.site); own != nil && member.DiscardUnkept {
			own.KeepDue = false
		}
		*e.volume(i) = updated
	}
	if changed {
		e.put()
	}
	return x.outcome(), nil
}

// waitsToBeKept tells whether what the site has is to be discarded, and is not, as it cannot be kept (S48).
func (s *State) waitsToBeKept(v *Volume, site Site) bool {
	l := s.replicaAt(v, site)
	return l != nil && l.Outdated && l.isNotKept() && !v.isApart(site) && !v.RelationMember.DiscardUnkept
}

// isApart tells whether the replica at the site stays disconnected until somebody decides about it (S48).
func (v *Volume) isApart(site Site) bool {
	m := v.RelationMember
	return m != nil && m.Apart && m.ApartAt == site
}
