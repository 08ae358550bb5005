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
