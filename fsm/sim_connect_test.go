package fsm

// connect is the handshake, when both want it.
func (k *simDRBD) connect() {
	a, b := k.replicas[0], k.replicas[1]
	if k.connected || !k.link || !a.powered || !b.powered || !a.configured || !b.configured || a.standAlone || b.standAlone || a.primary && b.primary {
		return
	}
	source := -1
	if a.disk > diskless && b.disk > diskless {
		var refused bool
		if source, refused = k.syncDirection(a, b); refused {
			return
		}
	} else if !k.mayConnectDiskless(a, b) || !k.mayConnectDiskless(b, a) {
		return
	}
	k.establish(source)
}

// mayConnectDiskless: a primary without a disk connects only to what it showed last.
func (k *simDRBD) mayConnectDiskless(a, b *simReplica) bool {
	return !a.primary || a.disk > diskless || b.disk <= diskless || b.uuid == a.exposedUUID && !b.syncUnfinished
}

// syncDirection compares the generations: who is the source, -1 when the two are equal.
func (k *simDRBD) syncDirection(a, b *simReplica) (source int, refused bool) {
	source = compareGenerations(a, b)
	switch {
	case a.syncUnfinished != b.syncUnfinished && (source >= 0 || a.uuid == b.uuid):
		source = 0
		if a.syncUnfinished {
			source = 1
		}
	case source == 2: // a split brain
		switch {
		case a.discard && !a.primary && !b.discard:
			source = 1
		case b.discard && !b.primary && !a.discard:
			source = 0
		default:
			k.splitBrains++
			a.standAlone, b.standAlone = !a.primary, !b.primary
			return -1, true
		}
	}
	if source >= 0 && k.replicas[1-source].primary && !k.attaching {
		return -1, true // "I shall become SyncTarget, but I am primary!"
	}
	return source, false
}

// compareGenerations is 0 or 1 for the source, -1 for equal ones, 2 for a split brain.
func compareGenerations(a, b *simReplica) int {
	switch {
	case a.uuid == b.uuid && a.crashed && !b.crashed:
		return 0
	case a.uuid == b.uuid && b.crashed && !a.crashed:
		return 1
	case a.uuid == b.uuid:
		return -1
	case a.bitmap == b.uuid:
		return 0
	case b.bitmap == a.uuid:
		return 1
	}
	for _, h := range a.history {
		if h == b.uuid {
			return 0
		}
	}
	for _, h := range b.history {
		if h == a.uuid {
			return 1
		}
	}
	return 2
}

func (k *simDRBD) establish(source int) {
	k.connected, k.syncTarget = true, -1
	if source >= 0 {
		k.syncTarget = 1 - source
		k.replicas[k.syncTarget].disk, k.replicas[k.syncTarget].syncUnfinished = inconsistent, true
	}
	for i, m := range k.replicas {
		m.suspended, m.peerDiskOutdated, m.discard = false, false, false
		whole := k.replicas[1-i].disk > inconsistent || k.replicas[1-i].primary || k.syncTarget >= 0
		if i != k.syncTarget && m.disk == consistent && whole && !m.syncUnfinished {
			m.disk = upToDate
		}
	}
	for i, m := range k.replicas { // "got connected to diskless, primary peer"
		if p := k.replicas[1-i]; p.primary && p.disk <= diskless && m.disk == upToDate {
			if m.bitmap == 0 {
				k.newUUID(m)
			}
			p.exposedUUID = m.uuid
		} else if m.primary && p.disk <= diskless && m.disk == upToDate && m.bitmap == 0 {
			k.newUUID(m) // "resumed; needs to bump uuid!"
		}
	}
	k.writePeerFlags(0)
	k.writePeerFlags(1)
}

// finish ends a synchronisation: the target has its source's content, and no other.
func (k *simDRBD) finishSync() {
	if k.syncTarget < 0 {
		return
	}
	t, s := k.replicas[k.syncTarget], k.replicas[1-k.syncTarget]
	if s.data.lacks(&k.acknowledged) {
		k.fail("a synchronisation overwrote acknowledged writes with a copy that lacks them")
	}
	t.data, t.syncUnfinished, t.crashed, t.disk = s.data, false, false, upToDate
	t.history = append([]uint64{t.uuid}, t.history...)
	s.history = append([]uint64{s.bitmap}, s.history...)
	if s.disk == consistent {
		s.disk = upToDate
	}
	t.uuid, t.bitmap, s.bitmap, s.crashed = s.uuid, 0, 0, s.crashed && s.primary
	k.syncTarget = -1
	k.writePeerFlags(0)
	k.writePeerFlags(1)
}
