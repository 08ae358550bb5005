package sim

import (
	"strings"

	"github.com/holdfast-storage/holdfast/fsm"
)

// relation is the one that the claim's volume is in, nil for none.
func (c *claim) relation() *fsm.Relation {
	v, ok := c.volume()
	if !ok {
		return nil
	}
	return c.s.log.state.RelationOf(v)
}

// converting tells whether the claim's volume is being converted, or that is being undone.
func (c *claim) converting() bool {
	v, ok := c.volume()
	return ok && v.Replication != nil && v.Replication.Conversion != nil
}

// role gives one site the role, as an operator does who takes them in the order of the guide: the site that is not to have it is
// demoted, and so is one that was ousted; then the other one is promoted, by force where that is the only way.
func (g *healing) role() *csiCall {
	c := g.claim
	r := c.relation()
	if c.converting() {
		g.wait("it is being converted")
		return nil
	}
	if r == nil {
		g.advance()
		return g.next()
	}
	if c.roles.primary == "" {
		c.roles.primary = r.Sites[c.s.tape.pick(2)]
	}
	here, there := c.roles.primary, c.roles.other(c.roles.primary)
	switch {
	case r.Move != nil:
		return g.stayInStage(c.roles.promote(r.Move.To, false))
	case r.Promoted && r.Primary == here:
		g.advance()
		return g.next()
	case r.Promoted:
		return g.stayInStage(c.roles.demote(there))
	case isOusted(r, here):
		return g.stayInStage(c.roles.demote(here))
	}
	force := strings.Contains(g.lastErr, "force gives up")
	if strings.Contains(g.lastErr, "are coming") || strings.Contains(g.lastErr, "force is not the answer") || strings.Contains(g.lastErr, "it has no replica at") {
		c.roles.primary, g.lastErr = there, "" // the other one has more
		return nil
	}
	return g.stayInStage(c.roles.promote(here, force))
}

func isOusted(r *fsm.Relation, site fsm.Site) bool {
	for _, o := range r.Ousted {
		if o.Site == site {
			return true
		}
	}
	return false
}

// resynced has both sites equal again: nothing that happened keeps them apart for good.
func (g *healing) resynced() *csiCall {
	r := g.claim.relation()
	if r == nil || g.isAlone() {
		g.advance()
		return g.next()
	}
	keep := !strings.Contains(g.lastErr, "kept")
	return g.claim.roles.resyncKeeping(g.claim.roles.other(r.Primary), true, keep)
}

// isAlone tells whether a replica of the relation was removed by an operator, so that there is none to be equal to.
func (g *healing) isAlone() bool {
	for _, c := range g.claim.roles.claims() {
		if v, ok := c.volume(); ok && len(v.Replicas) < 2 {
			return true
		}
	}
	return false
}

// disabled ends the relation at its primary.
func (g *healing) disabled() *csiCall {
	r := g.claim.relation()
	if g.claim.converting() {
		g.wait("it is being converted")
		return nil
	}
	if r == nil {
		g.advance()
		return g.next()
	}
	return g.claim.roles.disable(r.Primary)
}

// inGroup tells whether the claim's volume is in the volume group of those that have one role.
func (g *healing) inGroup() bool {
	v, ok := g.claim.volume()
	return ok && g.claim.s.log.state.GroupOf(v.ID) != ""
}

// leaveGroup ends the group before a member is deleted, and before that what it is replicated as, if a late call began that again.
func (g *healing) leaveGroup() *csiCall {
	if g.claim.relation() != nil {
		g.stage = stageDisable
		return nil
	}
	return g.stay(g.claim.roles.group.end(g.claim.roles))
}

// stayInStage makes a call after which the stage looks again.
func (g *healing) stayInStage(call *csiCall) *csiCall {
	done := call.done
	call.done = func(err error) {
		done(err)
		if err == nil || isNotFound(err) {
			g.stage--
		}
	}
	return call
}

// siteOfUse tells whether a host may use the claim's volume now, where a relation says which site may.
func (g *healing) mayUse(h *host, v *fsm.Volume) bool {
	r := g.claim.s.log.state.RelationOf(v)
	return r == nil || r.Promoted && r.Primary == h.site()
}
