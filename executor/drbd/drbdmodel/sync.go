package drbdmodel

// beginSync makes the source's peer the target of a synchronisation, of every block or of those
// that the bitmaps name. The bitmap's UUID names what the target had.
func (p *Pair) beginSync(source int, all bool) {
	s, t := &p.replicas[source], &p.replicas[1-source]
	p.target = 1 - source
	if all {
		s.metadata.OutOfSync = allBlocks()
	}
	s.metadata.OutOfSync.addAll(&t.metadata.OutOfSync)
	t.metadata.OutOfSync = s.metadata.OutOfSync
	if s.metadata.Bitmap == 0 {
		s.metadata.Bitmap = p.nextUUID()
	}
	t.metadata.Current, t.metadata.Bitmap = s.metadata.Bitmap, 0
	t.disk, t.metadata.Consistent = inconsistent, false
}

// Sync copies up to n blocks of the synchronisation that runs. The target confirms a block before
// it is on stable storage, and both bitmaps forget it: a loss of the target's power loses it.
func (p *Pair) Sync(n int) {
	if p.target < 0 {
		return
	}
	s, t := &p.replicas[1-p.target], &p.replicas[p.target]
	for ; n > 0; n-- {
		block, more := t.metadata.OutOfSync.first()
		if !more {
			return
		}
		t.content.copyBlock(&s.content, block)
		s.metadata.OutOfSync.remove(block)
		t.metadata.OutOfSync.remove(block)
	}
}

// FinishSync copies the rest and ends the synchronisation: the target's disk is flushed, and both
// have the source's generations.
func (p *Pair) FinishSync() {
	if p.target < 0 {
		return
	}
	p.Sync(MaxWrites)
	s, t := &p.replicas[1-p.target], &p.replicas[p.target]
	if s.content.Lacks(&p.acknowledged) {
		p.violate("a synchronisation overwrote acknowledged writes with a copy that lacks them")
	}
	s.metadata.endBitmap()
	s.metadata.Crashed = s.metadata.Crashed && s.primary
	if s.disk == consistent {
		s.disk = upToDate
	}
	t.stable = t.content
	t.metadata.Generations, t.metadata.Consistent, t.metadata.Crashed, t.metadata.WasOutdated, t.disk = s.metadata.Generations, true, false, false, upToDate
	p.target = -1
	p.notePeer(0)
	p.notePeer(1)
}

// Progress returns how many blocks host i's bitmap names.
func (p *Pair) Progress(i int) (outOfSync int) { return p.replicas[i].metadata.OutOfSync.Len() }

// Invalidate has host i's content copied from its peer completely: at once where the two are
// connected, at the next connection where it is StandAlone and Inconsistent already.
func (p *Pair) Invalidate(i int) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	switch {
	case r.primary || r.disk < inconsistent:
	case p.together && p.target < 0 && peer.disk == upToDate:
		p.beginSync(1-i, true)
		p.notePeer(0)
		p.notePeer(1)
	case !p.together && r.standAlone && r.disk == inconsistent:
		r.metadata.OutOfSync = allBlocks()
	}
}

// Verify compares the two disks and marks what differs; the next connection copies it. It returns
// how many blocks differ.
func (p *Pair) Verify() int {
	if !p.together || p.target >= 0 {
		return 0
	}
	a, b := &p.replicas[0], &p.replicas[1]
	for n := range MaxWrites {
		if a.content.Has(n) != b.content.Has(n) {
			a.metadata.OutOfSync.add(n)
			b.metadata.OutOfSync.add(n)
		}
	}
	return a.metadata.OutOfSync.Len()
}
