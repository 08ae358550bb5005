package drbdmodel

// Write is one write of the volume's user on host i: it is acknowledged when every disk that
// counts has it on stable storage. It does nothing where the kernel would refuse it, suspend it,
// or return an I/O error, or where MaxWrites were made.
func (p *Pair) Write(i int) (number int, acknowledged bool) {
	number, begun := p.Begin(i, true, true)
	if begun {
		p.Complete(i)
	}
	return number, begun
}

// Begin is a write that is not acknowledged yet, and has reached host i's own disk, its peer's, or
// none. The activity log names it, so that a crash of the primary leaves no difference unnamed.
func (p *Pair) Begin(i int, own, peer bool) (number int, begun bool) {
	r := &p.replicas[i]
	if !r.powered || !r.primary || r.held() || p.writes >= MaxWrites || !p.Accessible(i) {
		return 0, false
	}
	if r.disk >= inconsistent && !p.together && r.metadata.Bitmap == 0 {
		p.writeAloneInSharedGeneration(r)
	}
	number = p.writes
	p.writes++
	r.inFlight.add(number)
	for _, d := range p.disks(i) {
		d.metadata.ActivityLog.add(number)
		if d == r && own || d != r && peer {
			d.content.add(number)
			d.stable.add(number)
		}
	}
	return number, true
}

// Reach has the writes that host i began, and that are not acknowledged, reach its own disk or its
// peer's.
func (p *Pair) Reach(i int, peer bool) {
	r := &p.replicas[i]
	for _, d := range p.disks(i) {
		if (d != r) == peer {
			d.content.addAll(&r.inFlight)
			d.stable.addAll(&r.inFlight)
		}
	}
}

// InFlight returns the writes that host i began and that have neither been acknowledged nor failed.
func (p *Pair) InFlight(i int) Blocks { return p.replicas[i].inFlight }

// Acknowledged reports whether a write was acknowledged.
func (p *Pair) Acknowledged(number int) bool { return p.acknowledged.Has(number) }

// Complete ends the writes that host i began: with success on all disks that there are, which note
// what their peer lacks, or with an I/O error where no data are accessible. Suspended ones wait.
func (p *Pair) Complete(i int) {
	r := &p.replicas[i]
	if !r.primary || r.held() {
		return
	}
	disks := p.disks(i)
	for _, d := range disks {
		d.content.addAll(&r.inFlight)
		d.stable.addAll(&r.inFlight)
		d.metadata.ActivityLog.removeAll(&r.inFlight)
		if len(disks) == 1 {
			d.metadata.OutOfSync.addAll(&r.inFlight)
		}
	}
	if len(disks) > 0 && !r.abandoned {
		p.acknowledged.addAll(&r.inFlight)
	}
	r.inFlight = Blocks{}
}

// disks are those that host i's writes go to: none where it has no access to data that are up to
// date.
func (p *Pair) disks(i int) (disks []*replica) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if !p.Accessible(i) {
		return nil
	}
	if r.disk >= inconsistent {
		disks = append(disks, r)
	}
	if p.together && peer.disk >= inconsistent && peer.disk != consistent {
		disks = append(disks, peer)
	}
	return disks
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

// PowerOff is the loss of host i's power: what is not on stable storage is gone. Who wrote for the
// volume's user alone, as a primary or for a primary without a disk, has crashed as one.
func (p *Pair) PowerOff(i int) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if !r.powered {
		return
	}
	if r.disk > failed && (r.primary || p.together && peer.primary && peer.disk <= failed) {
		r.metadata.Crashed = true
	}
	r.powered = false
	if p.together {
		r.primary = false
		p.lose()
	}
	r.content, r.inFlight = r.stable, Blocks{}
	r.inKernel, r.disk, r.primary, r.suspended, r.frozen, r.standAlone, r.peerDiskOutdated, r.discard, r.abandoned = false, 0, false, false, false, true, false, false, false
}

// PowerOn boots host i. Its kernel has no resource.
func (p *Pair) PowerOn(i int) { p.replicas[i].powered = true }
