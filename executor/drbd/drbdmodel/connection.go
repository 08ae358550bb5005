package drbdmodel

// SetLink cuts the network between the two hosts, or mends it. Handshake connects them again.
func (p *Pair) SetLink(up bool) {
	p.linkDown = !up
	if !up {
		p.lose()
	}
}

// Connect has host i wait for its peer, with discard as the one that gives up its content where
// the two have gone on separately. A primary discards nothing.
func (p *Pair) Connect(i int, discard bool) {
	r := &p.replicas[i]
	if r.inKernel && r.standAlone && !(discard && r.primary) {
		r.standAlone, r.discard = false, discard
	}
}

// Disconnect ends host i's connection by force: its disk stays what it is, and its peer, if it is
// primary, suspends I/O.
func (p *Pair) Disconnect(i int) {
	r := &p.replicas[i]
	r.standAlone, r.discard = true, false
	p.lose()
}

// Down removes the resource of a secondary from host i's kernel. A connected one outdates itself
// while its primary goes on, which is why nobody does that without Disconnect before.
func (p *Pair) Down(i int) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if !r.inKernel || r.primary || r.held() {
		return
	}
	if p.together {
		graceful := peer.primary
		r.metadata.WasOutdated = r.metadata.WasOutdated || graceful && r.disk > outdated
		p.lose()
		if graceful {
			peer.suspended, peer.peerDiskOutdated = false, true
			p.bumpWithout(1 - i)
			p.notePeer(1 - i)
		}
	}
	r.inKernel, r.disk, r.standAlone, r.peerDiskOutdated, r.discard = false, 0, true, false, false
}

// bumpWithout begins a generation of host i's own if its peer still has the current one.
func (p *Pair) bumpWithout(i int) {
	if r := &p.replicas[i]; r.disk == upToDate && r.metadata.Bitmap == 0 {
		r.metadata.begin(p.nextUUID())
	}
}

// lose ends the connection as every loss does: a primary suspends its I/O until its fence-peer
// handler has answered (fencing resource-and-stonith).
func (p *Pair) lose() {
	if !p.together {
		return
	}
	p.together, p.target = false, -1
	for i := range p.replicas {
		r := &p.replicas[i]
		if !r.powered {
			continue
		}
		r.disconnects++
		r.peerDiskOutdated = false
		if r.primary {
			r.suspended = !p.asynchronous
		}
		p.notePeer(i)
	}
}

// notePeer is what host i's kernel writes into its metadata about its peer.
func (p *Pair) notePeer(i int) {
	r, peer := &p.replicas[i], &p.replicas[1-i]
	if r.disk <= failed {
		return
	}
	if p.together {
		r.metadata.PeerOutdated = peer.disk == inconsistent || peer.disk == outdated
		r.peerDiskOutdated = false
		return
	}
	r.metadata.PeerOutdated = r.peerDiskOutdated
}
