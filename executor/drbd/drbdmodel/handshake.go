package drbdmodel

// Handshake lets the two meet if both wait for each other. It compares their generations, and
// connects them, begins a synchronisation, or leaves StandAlone who cannot take part.
func (p *Pair) Handshake() {
	a, b := &p.replicas[0], &p.replicas[1]
	if p.together || p.linkDown || !a.waits() || !b.waits() || a.primary && b.primary {
		return
	}
	if a.disk <= failed || b.disk <= failed {
		if a.mayShow(b) && b.mayShow(a) {
			p.establish(Equal)
		}
		return
	}
	result := p.negotiate()
	if result == SplitBrain || result == Unrelated {
		p.splitBrains++
		a.standAlone, b.standAlone = true, true
		return
	}
	if refusing := p.refuses(result, -1); refusing >= 0 {
		p.replicas[refusing].standAlone = true
		return
	}
	p.establish(result)
}

func (r *replica) waits() bool { return r.powered && r.inKernel && !r.standAlone }

// mayShow: a primary without a disk connects only to the content that it showed last.
func (r *replica) mayShow(peer *replica) bool {
	return !r.primary || r.disk > failed || peer.disk <= failed || peer.metadata.Current == r.exposed && peer.metadata.Consistent
}

// negotiate decides, from the first host's view, what becomes of two replicas with disks: by their
// disks where only one is Inconsistent, else by their generations.
func (p *Pair) negotiate() Comparison {
	a, b := &p.replicas[0], &p.replicas[1]
	result, rule := Compare(a.metadata.Generations, b.metadata.Generations, a.metadata.Crashed, b.metadata.Crashed)
	if rule == 40 && a.metadata.Crashed && b.metadata.Crashed {
		result = Source
	}
	if result == Unrelated {
		return Unrelated
	}
	if (a.disk == inconsistent) != (b.disk == inconsistent) {
		return byDisks(result, a.disk == inconsistent)
	}
	if result == SplitBrain && a.discard != b.discard {
		result = Source
		if a.discard {
			result = Target
		}
	}
	return result
}

// byDisks is the direction from the consistent disk to the other; everything is copied where the
// generations cannot tell what differs.
func byDisks(result Comparison, firstIsTarget bool) Comparison {
	direction := Source
	if result == SplitBrain || result == SourceAll || result == TargetAll {
		direction = SourceAll
	}
	if firstIsTarget {
		return -direction
	}
	return direction
}

// refuses returns the host that does not accept what was negotiated, -1 when both do: a primary is
// no target ("I shall become SyncTarget, but I am primary!"), unless its disk is only being attached,
// and an Inconsistent disk is no source.
func (p *Pair) refuses(result Comparison, attaching int) int {
	source, syncs := sourceOf(result)
	switch {
	case !syncs:
		return -1
	case p.replicas[1-source].primary && p.replicas[1-source].disk >= consistent && 1-source != attaching:
		return 1 - source
	case p.replicas[source].disk <= inconsistent:
		return source
	}
	return -1
}

func sourceOf(result Comparison) (host int, syncs bool) {
	if result < 0 {
		host = 1
	}
	return host, result != Equal
}

// establish makes the connection, and begins the synchronisation that was negotiated.
func (p *Pair) establish(result Comparison) {
	p.together, p.target = true, -1
	if source, syncs := sourceOf(result); syncs {
		p.beginSync(source, result == SourceAll || result == TargetAll)
	}
	for i := range p.replicas {
		r, peer := &p.replicas[i], &p.replicas[1-i]
		r.suspended, r.peerDiskOutdated, r.discard = false, false, false
		good := peer.disk > inconsistent || peer.primary || p.target >= 0
		if i != p.target && (r.disk == consistent || r.disk == outdated) && good {
			r.disk, r.metadata.WasOutdated = upToDate, false
		}
	}
	for i := range p.replicas {
		p.meetDiskless(i)
	}
	for i := range p.replicas {
		p.notePeer(i)
		p.Complete(i)
	}
}

// meetDiskless begins a generation on host i's disk if its peer has none and one of the two is
// primary: what is written from now on is on one disk.
func (p *Pair) meetDiskless(i int) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if peer.disk > failed || r.disk != upToDate || !peer.primary && !r.primary {
		return
	}
	p.bumpWithout(i)
	if peer.primary {
		peer.exposed = r.metadata.Current
	}
}
