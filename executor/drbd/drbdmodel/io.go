package drbdmodel

// Write is one write of the volume's user on host i: it is acknowledged when every disk that
// counts has it on stable storage. It does nothing where the kernel would refuse it, suspend it,
// or return an I/O error, or where MaxWrites were made.
func (p *Pair) Write(i int) (number int, acknowledged bool) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if !r.powered || !r.primary || r.suspended || p.writes >= MaxWrites || !p.Accessible(i) {
		return 0, false
	}
	own, other := r.disk >= inconsistent, p.together && peer.disk >= inconsistent && peer.disk != consistent
	if own && !p.together && r.metadata.Bitmap == 0 {
		p.writeAloneInSharedGeneration(r)
	}
	number = p.writes
	p.writes++
	for _, w := range []struct {
		has bool
		r   *replica
	}{{own, r}, {other, peer}} {
		if w.has {
			w.r.content.add(number)
			w.r.stable.add(number)
			if !own || !other {
				w.r.metadata.OutOfSync.add(number)
			}
		}
	}
	p.acknowledged.add(number)
	return number, true
}

// writeAloneInSharedGeneration: with protocol A the kernel begins a generation at the first write
// without the peer. With C it never comes to that, as the loss suspends I/O.
func (p *Pair) writeAloneInSharedGeneration(r *replica) {
	if p.asynchronous {
		r.metadata.begin(p.nextUUID())
		return
	}
	p.violate("a primary wrote alone in the generation that its peer has")
}

// Accessible reports whether host i can reach data that are up to date, on its own disk or through
// its peer. A primary that cannot returns I/O errors.
func (p *Pair) Accessible(i int) bool {
	return p.replicas[i].disk == upToDate || p.together && p.replicas[1-i].disk == upToDate
}

// PowerOff is the loss of host i's power: what is not on stable storage is gone.
func (p *Pair) PowerOff(i int) {
	r := &p.replicas[i]
	if !r.powered {
		return
	}
	if r.primary && r.disk > failed {
		r.metadata.Crashed = true
	}
	r.powered = false
	if p.together {
		r.primary = false
		p.lose()
	}
	r.content = r.stable
	r.inKernel, r.disk, r.primary, r.suspended, r.standAlone, r.peerDiskOutdated, r.discard = false, 0, false, false, true, false, false
}

// PowerOn boots host i. Its kernel has no resource.
func (p *Pair) PowerOn(i int) { p.replicas[i].powered = true }
