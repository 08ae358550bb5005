package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyDemoteReplication ends the role of the endpoint's site. It gives nothing up: which side has everything stays
// the log's word (S46). Where the site is not primary it accepts that it lost the role (S41).
func applyDemoteReplication(s *State, m Meta, c *fsmpb.DemoteReplication) (*fsmpb.Outcome, *Rejection) {
	x, rej := s.enabledSource(m, "demote", c.GetSource(), c.GetReplicationId())
	if rej != nil {
		return nil, rej
	}
	if rej := x.checkRole("demote", c.GetRole()); rej != nil {
		return nil, rej
	}
	if !x.relation.isPrimary(m.site) {
		return x.acceptLoss(m, "demote")
	}
	for _, v := range x.members {
		if rej := s.checkDemote(v, m.site); rej != nil {
			return nil, rej
		}
	}
	e := x.edit()
	e.relation.Promoted, e.relation.Role, e.relation.Cut = false, m.Index, 0
	for i, v := range e.members {
		if updated, withdrawn := s.withForceWithdrawn(v, m.site, m.Index); withdrawn && x.isForceUnused() {
			*e.volume(i) = updated
		}
	}
	e.put()
	return x.outcome(), nil
}

// checkDemote: nobody uses the volume at the site.
func (s *State) checkDemote(v *Volume, site Site) *Rejection {
	if rej := v.convertingFirst(); rej != nil {
		return rej
	}
	if rej := v.reclaimFirst("demote"); rej != nil {
		return rej
	}
	if p := s.publicationAt(v, site); p != nil && !plantedbug.Is(plantedbug.DemotedInUse) {
		return Reject(Precondition, "demote volume %s at site %s: it is published to node %s", v.ID, site, p.Node)
	}
	return nil
}

// acceptLoss ends that the site is ousted: its orchestrator knows that it lost the role.
func (x *replicationSource) acceptLoss(m Meta, action string) (*fsmpb.Outcome, *Rejection) {
	if move := x.relation.Move; move != nil {
		return nil, Reject(Busy, "%s %s at site %s: its role is moving to site %s", action, x.name(), m.site, move.To)
	}
	for _, v := range x.members {
		if p := x.s.publicationAt(v, m.site); p != nil { // since before a restore
			return nil, Reject(Precondition, "%s volume %s at site %s: it is published to node %s", action, v.ID, m.site, p.Node)
		}
	}
	if x.relation.ousted(m.site) != nil {
		e := x.edit()
		e.relation = e.relation.withoutOusted(m.site)
		e.put()
	}
	return x.outcome(), nil
}
