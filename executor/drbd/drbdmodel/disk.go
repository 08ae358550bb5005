package drbdmodel

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// CreateMetadata makes metadata on host i's backing device; existing ones stay.
func (p *Pair) CreateMetadata(i int) {
	if !p.replicas[i].metadata.Exist {
		p.RemakeMetadata(i)
	}
}

// RemakeMetadata makes the metadata of a disk that is not attached anew: all of its content counts
// for nothing, and the next connection copies everything.
func (p *Pair) RemakeMetadata(i int) {
	if r := &p.replicas[i]; r.disk <= diskless {
		r.metadata = Metadata{Exist: true, Generations: Generations{Current: JustCreated}}
	}
}

// WipeMetadata removes the metadata, and with them all that is known of the disk.
func (p *Pair) WipeMetadata(i int) {
	if r := &p.replicas[i]; r.disk <= diskless {
		r.metadata = Metadata{}
	}
}

// Erase is a new backing device: neither metadata nor content.
func (p *Pair) Erase(i int) {
	if r := &p.replicas[i]; r.disk <= diskless {
		r.metadata, r.content, r.stable = Metadata{}, Blocks{}, Blocks{}
	}
}

// Disk is what a backing device holds: the content, and the metadata behind it.
type Disk struct {
	metadata Metadata
	content  Blocks
}

// Disk returns what host i's backing device holds.
func (p *Pair) Disk(i int) Disk {
	r := &p.replicas[i]
	return Disk{metadata: r.metadata, content: r.content}
}

// RevertDisk makes host i's backing device hold what one of the volume held once: the metadata are
// of that time, too. A disk that is attached stays as it is.
func (p *Pair) RevertDisk(i int, d Disk) {
	if r := &p.replicas[i]; r.disk <= diskless {
		r.metadata, r.content, r.stable = d.metadata, d.content, d.content
	}
}

// Attach creates the resource in host i's kernel and attaches its disk, as far as the metadata
// permit. A connected one negotiates as if it connected anew; refused, it stays Diskless.
func (p *Pair) Attach(i int) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if !r.powered || !r.metadata.Exist || r.inKernel && r.disk > diskless {
		return
	}
	wasThere := r.inKernel
	r.inKernel = true
	if wasThere && !p.mayAttach(r, peer) {
		return
	}
	r.metadata.replayActivityLog()
	r.disk = r.metadata.disk()
	if r.disk == consistent && r.metadata.PeerOutdated && !p.together {
		r.disk, r.peerDiskOutdated = upToDate, true
	}
	if !p.together {
		return
	}
	if result, accepted := p.negotiateAttach(i); accepted {
		p.establish(result)
	} else {
		r.disk = diskless
	}
}

// negotiateAttach decides what becomes of a disk that host i attaches while it is connected.
func (p *Pair) negotiateAttach(i int) (result Comparison, accepted bool) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if peer.disk <= failed {
		return Equal, r.mayShow(peer) && peer.mayShow(r)
	}
	result = p.negotiate()
	return result, result > SplitBrain && p.refuses(result, i) < 0
}

// disk is what the kernel calls a disk with these metadata before it has seen its peer.
func (m *Metadata) disk() fsmpb.DiskState {
	switch {
	case !m.Consistent:
		return inconsistent
	case m.WasOutdated:
		return outdated
	}
	return consistent
}

// replayActivityLog marks what a crash may have left on one disk only.
func (m *Metadata) replayActivityLog() {
	if m.Crashed {
		m.OutOfSync.addAll(&m.ActivityLog)
	}
	m.ActivityLog = Blocks{}
}

// mayAttach: "can only attach to data with current UUID".
func (p *Pair) mayAttach(r, peer *replica) bool {
	if p.together {
		return !peer.primary || peer.disk > failed || r.metadata.Current == peer.exposed
	}
	return !r.primary || r.metadata.Current == r.exposed
}

// Detach detaches host i's disk: it is Diskless at once.
func (p *Pair) Detach(i int) { p.FailDisk(i) }

// FailDisk is an I/O error below host i's replica: the kernel detaches the disk and asks nobody.
// With a primary, whoever keeps its disk goes on in a generation of its own.
func (p *Pair) FailDisk(i int) {
	p.BeginDetach(i)
	p.EndDetach(i)
}

// BeginDetach leaves the disk Failed, as it is while the kernel's helper for it runs.
func (p *Pair) BeginDetach(i int) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if !r.powered || r.disk <= failed {
		return
	}
	p.notePeer(i)
	r.exposed = r.metadata.Current
	r.disk = failed
	r.metadata.Crashed = r.metadata.Crashed || r.primary
	p.target = -1
	if !p.together {
		p.Complete(i)
		return
	}
	if (r.primary || peer.primary) && peer.disk == upToDate {
		p.bumpWithout(1 - i)
		r.exposed = peer.metadata.Current
	}
	p.notePeer(1 - i)
	p.Complete(i)
}

// EndDetach makes a Failed disk Diskless.
func (p *Pair) EndDetach(i int) {
	if r := &p.replicas[i]; r.disk == failed {
		r.disk = diskless
	}
}

// LoseBlock is the loss of a block below host i's replica that its device had confirmed: neither
// bitmap names it. It reports whether there was one.
func (p *Pair) LoseBlock(i int) bool {
	r := &p.replicas[i]
	block, found := r.stable.first()
	if found {
		r.content.remove(block)
		r.stable.remove(block)
	}
	return found
}
