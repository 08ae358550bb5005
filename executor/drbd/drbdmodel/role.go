package drbdmodel

// Promotion is what becomes of an attempt to make a replica primary.
type Promotion int

// The kernel refuses, asks its fence-peer handler whether the peer is outdated, or promotes.
const (
	Refused Promotion = iota
	AsksHandler
	Promoted
)

// Promote makes host i's replica primary. Fenced is the handler's answer that the peer is outdated
// (exit code 4): without a connection the kernel asks for it, unless it knows that already.
func (p *Pair) Promote(i int, fenced bool) Promotion {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	switch {
	case !r.powered || !r.inKernel || r.primary || p.together && peer.primary:
		return Refused
	case r.disk != upToDate && (p.together || r.disk != consistent):
		return Refused
	case !p.together && !r.peerDiskOutdated && !fenced:
		return AsksHandler
	}
	p.promote(i)
	return Promoted
}

// ForcePrimary makes host i's replica primary without a connection whatever its disk says, for a
// recorded decision (primary --force).
func (p *Pair) ForcePrimary(i int) Promotion {
	r := &p.replicas[i]
	if !r.powered || !r.inKernel || r.primary || p.together || r.disk <= failed {
		return Refused
	}
	r.metadata.Consistent, r.metadata.WasOutdated = true, false
	p.promote(i)
	return Promoted
}

func (p *Pair) promote(i int) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if !p.together {
		r.peerDiskOutdated, r.disk = true, upToDate
	}
	r.primary = true
	if !p.together || peer.disk <= failed {
		p.bumpWithout(i)
	}
	p.notePeer(i)
	if r.content.Lacks(&p.acknowledged) {
		p.violate("a replica became primary without an acknowledged write")
	}
}

// Demote makes host i's replica secondary, and reports whether it did: suspended I/O keeps its
// device busy.
func (p *Pair) Demote(i int) bool {
	r := &p.replicas[i]
	if !r.primary || r.held() {
		return false
	}
	p.Complete(i)
	r.primary, r.abandoned = false, false
	return true
}

// Freeze suspends the I/O of host i's primary until Resume, whatever becomes of its peer (suspend-io).
func (p *Pair) Freeze(i int) {
	if r := &p.replicas[i]; r.powered && r.primary {
		r.frozen = true
	}
}

// Resume ends the suspension of host i's I/O: because its handler answered that the peer is
// outdated, or by resume-io, of which the kernel learns nothing about the peer. Whoever has a disk
// goes on in a generation of its own, also where the disk is being detached. With protocol A a
// primary is not suspended, and the handler's answer says the same.
func (p *Pair) Resume(i int, peerOutdated bool) {
	r := &p.replicas[i]
	if p.together && r.frozen {
		r.frozen = false
		p.Complete(i)
	}
	if p.together || !r.held() && !(p.asynchronous && r.primary) {
		return
	}
	r.suspended, r.frozen = false, r.frozen && peerOutdated // the handler's answer ends only its own suspension
	if r.disk == failed && r.metadata.Bitmap == 0 {
		r.metadata.begin(p.nextUUID())
	}
	if r.disk != upToDate {
		p.Complete(i)
		return
	}
	if r.content.Lacks(&p.acknowledged) {
		p.violate("a primary went on alone without an acknowledged write")
	}
	r.peerDiskOutdated = r.peerDiskOutdated || peerOutdated
	p.bumpWithout(i)
	p.notePeer(i)
	p.Complete(i)
}

// NewGeneration makes the first generation of two connected replicas that were just created, and
// reports whether it did. Neither copies anything.
func (p *Pair) NewGeneration() bool {
	a, b := &p.replicas[0], &p.replicas[1]
	if !p.together || p.target >= 0 || a.disk != inconsistent || b.disk != inconsistent || a.metadata.Current != JustCreated || b.metadata.Current != JustCreated {
		return false
	}
	uuid := p.nextUUID()
	for i := range p.replicas {
		r := &p.replicas[i]
		r.metadata.Generations, r.metadata.Consistent, r.metadata.OutOfSync, r.disk = Generations{Current: uuid}, true, Blocks{}, upToDate
	}
	p.notePeer(0)
	p.notePeer(1)
	return true
}
