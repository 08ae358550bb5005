package sim

import "github.com/holdfast-storage/holdfast/fsm"

// takenSnapshot is the one that was taken under the claim's name, at the site whose it is.
func (c *claim) takenSnapshot() (*fsm.Snapshot, fsm.Site, bool) {
	for _, site := range c.snapshotSites() {
		if snap, ok := c.s.log.state.SnapshotByName(site, "snap-"+c.name); ok {
			return snap, site, true
		}
	}
	return nil, "", false
}

// snapshotSites are those at which a snapshot of the claim may be: of one with a replica at each the home moves, and
// its name there may be that of another claim's, which then finds it first.
func (c *claim) snapshotSites() []fsm.Site {
	if c.metro || c.roles != nil {
		return c.s.siteNames()
	}
	return []fsm.Site{c.site}
}

func (g *healing) cleanSnapshots() *csiCall {
	c := g.claim
	for _, site := range c.snapshotSites() {
		if group, ok := c.s.log.state.GroupSnapshotByName(site, "group-"+c.name); ok {
			c.groupID, c.members = string(group.ID), nil
			for _, member := range group.Members {
				c.members = append(c.members, string(member))
			}
			return g.stay(c.deleteGroup().through(site))
		}
	}
	if snap, site, ok := c.takenSnapshot(); ok {
		c.snapshot = string(snap.ID)
		return g.stay(c.deleteSnapshot().through(site))
	}
	g.stage++
	return nil
}

// stay makes a call without going to the next stage after it.
func (g *healing) stay(call *csiCall) *csiCall {
	done := call.done
	call.done = func(err error) {
		done(err)
		if err == nil || isNotFound(err) {
			g.stage--
		}
	}
	return call
}

// atHome: the site that a volume is at home at changes it; publications are of the host's site, and snapshots of their own.
func (g *healing) atHome(call *csiCall) {
	switch v, exists := g.claim.volume(); {
	case !exists || call.host != nil || call.fixed:
	case g.stage == stageDelete, g.stage > stageBind && g.stage < stageUnbind:
		call.site = v.Home
	}
}
