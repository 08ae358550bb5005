package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyPromoteReplication makes the endpoint's site primary, of all members of a group or of none (S38). Only two
// refusals are answered by the orchestrator with force: NotReplicated and NeedsForce (S40).
func applyPromoteReplication(s *State, m Meta, c *fsmpb.PromoteReplication) (*fsmpb.Outcome, *Rejection) {
	x, rej := s.enabledSource(m, "promote", c.GetSource(), c.GetReplicationId())
	switch {
	case rej != nil:
		return nil, rej
	}
	p := &sitePromotion{replicationSource: x, m: m, force: c.GetForce(), separately: c.GetSeparately(), other: x.relation.other(m.site)}
	switch {
	case x.relation.isPrimary(m.site) && p.force:
		return p.goBackWhereInPart()
	case x.relation.isPrimary(m.site):
		return x.outcome(), nil
	}
	switch move := x.relation.Move; {
	case move != nil && move.To == m.site && !p.isStuck():
		return x.outcome(), nil
	case move != nil && move.To != m.site && s.siteCanBeAsked(x.members, move.To):
		return nil, Reject(Busy, "promote %s: its role is moving to site %s", x.name(), move.To)
	}
	if rej := x.checkRole("promote", c.GetRole()); rej != nil {
		return nil, rej
	}
	if x.relation.Move != nil && x.relation.Move.To != m.site {
		return x.takeRoleBack(m)
	}
	if rej := p.check(); rej != nil {
		return nil, rej
	}
	return p.decide()
}

// isStuck: the role moves here, and cannot come by itself any more: a replica here lost what made it whole, and no
// host of the other site can be asked.
func (p *sitePromotion) isStuck() bool {
	behind, _, _ := p.behind()
	return len(behind) > 0 && !p.s.siteCanBeAsked(p.members, p.other)
}

// takeRoleBack: the site that the role was moving to cannot be asked, and nobody was published there (S38).
func (x *replicationSource) takeRoleBack(m Meta) (*fsmpb.Outcome, *Rejection) {
	e := x.edit()
	e.setRole(m.site, m.Index)
	e.put()
	return x.outcome(), nil
}

// sitePromotion is a promotion that is being decided.
type sitePromotion struct {
	*replicationSource
	m     Meta
	force bool
	// separately is consent that the members of a group are of different instants.
	separately bool
	other      Site
}

// check is S30, S41 and S44 of what does not depend on the replicas' content.
func (p *sitePromotion) check() *Rejection {
	r := p.relation
	switch {
	case r.ousted(p.m.site) != nil && !plantedbug.Is(plantedbug.OustedSitePromoted):
		return Reject(Busy, "promote %s at site %s: the role was taken from it while it could not be asked: demote or resynchronise it there first", p.name(), p.m.site)
	case r.Promoted && p.s.siteCanBeAsked(p.members, p.other) && !plantedbug.Is(plantedbug.LivePrimaryForced):
		return Reject(Busy, "promote %s at site %s: site %s is primary and can be asked: demote it there, or fence its hosts", p.name(), p.m.site, p.other)
	case len(p.members) == 0:
		return Reject(NotReplicated, "promote %s: it has no volumes", p.name())
	}
	for _, v := range p.members {
		if rej := p.checkMember(v); rej != nil {
			return rej
		}
	}
	return nil
}

// checkMember refuses for what force is no answer to.
func (p *sitePromotion) checkMember(v *Volume) *Rejection {
	if rej := v.convertingFirst(); rej != nil {
		return rej
	}
	local := p.s.replicaAt(v, p.m.site)
	if local == nil {
		return Reject(NotReplicated, "promote volume %s: it has no replica at site %s", v.ID, p.m.site)
	}
	if n, _ := p.s.nodeOfReplica(local); !n.canBeAsked() {
		return Reject(Unreachable, "promote volume %s: node %s, which has its replica at site %s, cannot be reached now", v.ID, n.ID, p.m.site)
	}
	if local.State != ReplicaPresent || local.Undersized {
		return Reject(Busy, "promote volume %s: the device of its replica on node %s is missing or not grown", v.ID, local.Node)
	}
	return nil
}

// decide is the promotion without force where every member's replica has every write, and with it where the other
// site cannot be asked.
func (p *sitePromotion) decide() (*fsmpb.Outcome, *Rejection) {
	behind, unknown, why := p.behind()
	switch {
	case unknown != nil:
		return nil, unknown
	case len(behind) == 0:
		return p.promoteComplete()
	case p.s.siteCanBeAsked(p.members, p.other) && !plantedbug.Is(plantedbug.ForceOfferedTooEarly):
		return nil, p.waitsForOther(behind, why)
	case !p.force:
		return nil, Reject(NeedsForce, "promote %s at site %s: %s; no host of site %s can be asked: force gives up what the replica here did not get", p.name(), p.m.site, why.Message, p.other)
	}
	return p.promoteByForce(behind)
}

// promoteComplete: every member's replica here has every write, or was chosen as it is. What was chosen of one member is no word on
// those that are of a later instant (S44).
func (p *sitePromotion) promoteComplete() (*fsmpb.Outcome, *Rejection) {
	var chosen []*Volume
	plans := map[VolumeID]forcedReplica{}
	for _, v := range p.members {
		if l := p.s.replicaAt(v, p.m.site); l != nil && l.Outdated {
			chosen, plans[v.ID] = append(chosen, v), forcedReplica{host: l.Host}
		}
	}
	if rej := p.checkOneInstant(chosen, plans); rej != nil {
		return nil, rej
	}
	if p.relation.Promoted {
		return p.beginMove()
	}
	return p.takeFreeRole()
}

// waitsForOther: the other site's data are coming, unless a member needs an operator's decision first.
func (p *sitePromotion) waitsForOther(behind []*Volume, why *Rejection) *Rejection {
	for _, v := range behind {
		l := p.s.replicaAt(v, p.m.site)
		if decision := p.s.decisionNeeded(v, l.Host); decision != "" {
			return Reject(Busy, "promote volume %s at site %s: %s%s", v.ID, p.m.site, p.whyBehind(v, l).Message, decision)
		}
	}
	return Reject(Busy, "promote %s at site %s: %s; site %s can be reached, so its data are coming", p.name(), p.m.site, why.Message, p.other)
}

// behind are the members whose replica here may lack writes, and why. Unknown is a refusal: nobody knows what one of
// them has, as it is not attached, and force is not the answer to that.
func (p *sitePromotion) behind() (behind []*Volume, unknown, why *Rejection) {
	for _, v := range p.members {
		l := p.s.replicaAt(v, p.m.site)
		if l == nil {
			continue
		}
		if n, _ := p.s.nodeOfReplica(l); !l.isOfAttachment(n, l.Observed) || l.Observed.Unconfigured {
			unknown = Reject(Busy, "promote volume %s at site %s: its replica on node %s is not attached%s", v.ID, p.m.site, l.Node, v.apartHint(p.m.site))
		}
		if rej := p.whyBehind(v, l); rej != nil {
			behind, why = append(behind, v), rej
		}
	}
	return behind, unknown, why
}

func (p *sitePromotion) whyBehind(v *Volume, l *Replica) *Rejection {
	return p.s.whyNotComplete(v, l, p.relation.Promoted || p.relation.Move != nil)
}

// apartHint says what attaches a replica that is left as it is.
func (v *Volume) apartHint(site Site) string {
	if !v.isApart(site) {
		return ""
	}
	return ", as it was given up by force: resynchronise it there with force, and it takes part again"
}

// whyNotComplete says why the log does not know that the replica has every acknowledged write; nil: it has (S5), or it was
// decided to use it as it is. In a takeover it goes on without its peer.
func (s *State) whyNotComplete(v *Volume, l *Replica, takeover bool) *Rejection {
	n, _ := s.nodeOfReplica(l)
	a := &promotionCheck{s: s, v: v, n: n, r: v.Replication, own: l, peer: v.PeerReplica(l.Host), observed: l.Observed}
	switch {
	case !l.isOfAttachment(n, l.Observed) || l.Observed.Unconfigured:
		return Reject(Busy, "the replica of volume %s on node %s is not attached", v.ID, l.Node)
	case a.mayForce():
		return nil
	case !takeover && l.Observed.Connected() && s.PrimaryHost(v) != l.Host:
		return a.checkConnected()
	}
	return a.checkSolo()
}

// takeFreeRole: nobody is primary, and every replica here is up to date.
func (p *sitePromotion) takeFreeRole() (*fsmpb.Outcome, *Rejection) {
	e := p.edit()
	for i := range e.volumes {
		p.endUseAtOther(e, i) // after a restore something may be published there still
	}
	e.setRole(p.m.site, p.m.Index)
	e.put()
	return p.outcome(), nil
}

// beginMove ends every publication at the other site, which cannot be asked. The role moves when its hosts can write
// no more: their peers here disconnected, or they ended their use themselves (S42).
func (p *sitePromotion) beginMove() (*fsmpb.Outcome, *Rejection) {
	e := p.edit()
	e.relation.Promoted, e.relation.Cut = false, 0
	e.relation.Move = &Move{To: p.m.site, From: p.other, Index: p.m.Index}
	for i := range e.volumes {
		p.endUseAtOther(e, i)
	}
	e.put()
	return p.outcome(), nil
}

// endUseAtOther revokes what is published at the other site.
func (p *sitePromotion) endUseAtOther(e *relationEdit, i int) {
	for held := p.s.publicationAt(&e.volumes[i], p.other); held != nil; held = p.s.publicationAt(&e.volumes[i], p.other) {
		revoked := p.s.withRevoked(p.m, &e.volumes[i], held)
		revoked.renumber(OpTeardown, p.m.Index, held.Epoch.Index)
		*e.volume(i) = revoked
	}
	if p.s.owesTeardownAt(&e.volumes[i], p.other) && e.volumes[i].Replication.Generation != p.m.Index {
		updated := e.volumes[i].withReplication()
		updated.Replication.Generation = p.m.Index
		*e.volume(i) = updated
	}
}
