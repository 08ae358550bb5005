package drbdmodel

// Continue takes over what is known of the whole volume from another Pair of it, which holds an
// earlier or a later peer's replica: the numbers of writes and generations stay unique, and what
// was acknowledged there counts here.
func (p *Pair) Continue(other *Pair) {
	p.writes, p.lastUUID = max(p.writes, other.writes), max(p.lastUUID, other.lastUUID)
	p.acknowledged.addAll(&other.acknowledged)
}

// Move makes host i's replica that of host j of another Pair, as it is: its host has a new peer.
// Neither of the two may be connected. The other Pair keeps an empty replica in its place.
func (p *Pair) Move(i int, other *Pair, j int) {
	p.Continue(other)
	p.replicas[i] = other.replicas[j]
	other.replicas[j] = replica{powered: true, standAlone: true}
}

// AdoptContent names what disks held before their first generation, as one block that those have
// that are named, and that counts as acknowledged. It reports false when no more writes can be named.
func (p *Pair) AdoptContent(on ...int) (number int, adopted bool) {
	if p.writes >= MaxWrites {
		return 0, false
	}
	number = p.writes
	p.writes++
	p.acknowledged.add(number)
	for _, i := range on {
		p.replicas[i].content.add(number)
		p.replicas[i].stable.add(number)
	}
	return number, true
}

// GiveUp is a decision to go on with what host i's disk has: acknowledged writes that it lacks count no more, nor does what its
// peer, which may be primary still, acknowledges until it is secondary.
func (p *Pair) GiveUp(i int) {
	for n := range MaxWrites {
		if p.acknowledged.Has(n) && !p.replicas[i].content.Has(n) {
			p.acknowledged.remove(n)
		}
	}
	peer := &p.replicas[1-i]
	peer.abandoned = peer.primary
}

// Revert makes host i's disk, which is not attached, what it was when the content was copied, with metadata made anew.
func (p *Pair) Revert(i int, content Blocks) {
	if r := &p.replicas[i]; r.disk <= diskless {
		r.content, r.stable = content, content
		p.RemakeMetadata(i)
	}
}

// SyncTarget returns the host that a synchronisation writes to now, -1 when there is none.
func (p *Pair) SyncTarget() int { return p.target }
