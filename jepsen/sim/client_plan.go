package sim

// nextCall is what the orchestrator calls next for the claim: usually what brings it up or down,
// sometimes anything.
func (c *claim) nextCall(anything bool) *csiCall {
	if c.id == "" {
		if c.source != nil && c.contentSource() == nil {
			return c.source.sourceCall(c.fromSnap)
		}
		return c.create()
	}
	u := c.currentUse()
	if anything {
		return c.anyCall(u)
	}
	return u.nextCall()
}

// sourceCall makes what another claim is made from.
func (c *claim) sourceCall(snapshot bool) *csiCall {
	if c.id == "" || !snapshot {
		return c.nextCall(false)
	}
	return c.takeSnapshot()
}

// currentUse is the use that is up, or the one to bring up next.
func (c *claim) currentUse() *use {
	for _, u := range c.uses {
		if u.context != nil || u.staged || u.bound {
			u.noticeReboot()
			return u
		}
	}
	hosts := c.hosts()
	return c.useOn(hosts[c.s.tape.pick(len(hosts))])
}

// noticeReboot: after a boot nothing is up.
func (u *use) noticeReboot() {
	if boot := u.host.world.BootID(); boot != u.boot {
		u.boot = boot
		u.forget()
	}
}

// nextCall brings the use up, and after a while down.
func (u *use) nextCall() *csiCall {
	u.noticeReboot()
	if u.context != nil && !u.closing && u.claim.s.tape.oneIn(8) {
		u.closing = true
	}
	switch {
	case u.closing && (u.bound || u.writer != nil):
		return u.unbind()
	case u.closing && u.staged:
		return u.unstage()
	case u.closing, u.context == nil && u.claim.s.tape.oneIn(10):
		if u.context == nil && u.claim.s.tape.oneIn(3) {
			return u.claim.delete()
		}
		return u.unpublish()
	case u.context == nil && u.claim.s.tape.oneIn(4):
		return u.claim.reclaimSpace()
	case u.context == nil:
		return u.publish()
	case !u.staged:
		return u.stage()
	case !u.bound:
		return u.bind()
	}
	return u.claim.busyCall(u)
}

// busyCall is a call for a volume in use.
func (c *claim) busyCall(u *use) *csiCall {
	calls := []func() *csiCall{u.stats, c.expand, u.expandNode, func() *csiCall { return c.modify(100 * (1 + c.s.tape.pick(5))) }, c.takeSnapshot, c.get, u.bind, u.reclaimSpace}
	if c.keys != nil {
		calls = append(calls, u.rotate, u.rotate, u.renew)
	}
	return calls[c.s.tape.pick(len(calls))]()
}

// anyCall is any call at all, also one that makes no sense now.
func (c *claim) anyCall(u *use) *csiCall {
	elsewhere := c.useOn(c.s.hosts[c.s.tape.pick(len(c.s.hosts))])
	calls := []func() *csiCall{
		c.create, u.publish, u.stage, u.bind, u.unstage, u.unpublish, u.unbind, c.expand, c.list, c.takeSnapshot, elsewhere.publish, elsewhere.stage, elsewhere.unpublish, elsewhere.unstage, c.delete, c.reclaimSpace,
	}
	if c.keys != nil {
		calls = append(calls, u.rotate, elsewhere.rotate, u.renew)
	}
	if c.snapshot != "" {
		calls = append(calls, c.deleteSnapshot)
	}
	if other := c.groupPartner(); other != nil {
		calls = append(calls, func() *csiCall { return c.takeGroup(other) })
	}
	if c.groupID != "" {
		calls = append(calls, c.deleteGroup)
	}
	return calls[c.s.tape.pick(len(calls))]()
}

// groupPartner is another claim that has a volume.
func (c *claim) groupPartner() *claim {
	for _, other := range c.s.clients.claims {
		if other != c && other.id != "" && other.site == c.site {
			return other
		}
	}
	return nil
}
