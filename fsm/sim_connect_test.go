package fsm

// connect is the handshake, when both want it.
func (k *kernels) connect() {
	a, b := k.m[0], k.m[1]
	if k.connected || !k.link || !a.up || !b.up || !a.in || !b.in || a.standAlone || b.standAlone || a.primary && b.primary {
		return
	}
	source := -1
	if a.disk > diskless && b.disk > diskless {
		var refused bool
		if source, refused = k.direction(a, b); refused {
			return
		}
	} else if !k.mayMeetDiskless(a, b) || !k.mayMeetDiskless(b, a) {
		return
	}
	k.join(source)
}

// mayMeetDiskless: a primary without a disk connects only to what it showed last.
func (k *kernels) mayMeetDiskless(a, b *mirror) bool {
	return !a.primary || a.disk > diskless || b.disk <= diskless || b.uuid == a.exposed && !b.half
}

// direction compares the generations: who is the source, -1 when the two are equal.
func (k *kernels) direction(a, b *mirror) (source int, refused bool) {
	source = compareGenerations(a, b)
	switch {
	case a.half != b.half && (source >= 0 || a.uuid == b.uuid):
		source = 0
		if a.half {
			source = 1
		}
	case source == 2: // a split brain
		switch {
		case a.discard && !a.primary && !b.discard:
			source = 1
		case b.discard && !b.primary && !a.discard:
			source = 0
		default:
			k.splits++
			a.standAlone, b.standAlone = !a.primary, !b.primary
			return -1, true
		}
	}
	if source >= 0 && k.m[1-source].primary && !k.attaching {
		return -1, true // "I shall become SyncTarget, but I am primary!"
	}
	return source, false
}

// compareGenerations is 0 or 1 for the source, -1 for equal ones, 2 for a split brain.
func compareGenerations(a, b *mirror) int {
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

func (k *kernels) join(source int) {
	k.connected, k.target = true, -1
	if source >= 0 {
		k.target = 1 - source
		k.m[k.target].disk, k.m[k.target].half = inconsistent, true
	}
	for i, m := range k.m {
		m.suspended, m.pdskOut, m.discard = false, false, false
		whole := k.m[1-i].disk > inconsistent || k.m[1-i].primary || k.target >= 0
		if i != k.target && m.disk == consistent && whole && !m.half {
			m.disk = upToDate
		}
	}
	for i, m := range k.m { // "got connected to diskless, primary peer"
		if p := k.m[1-i]; p.primary && p.disk <= diskless && m.disk == upToDate {
			if m.bitmap == 0 {
				k.newUUID(m)
			}
			p.exposed = m.uuid
		} else if m.primary && p.disk <= diskless && m.disk == upToDate && m.bitmap == 0 {
			k.newUUID(m) // "resumed; needs to bump uuid!"
		}
	}
	k.flag(0)
	k.flag(1)
}

// finish ends a synchronisation: the target has its source's content, and no other.
func (k *kernels) finish() {
	if k.target < 0 {
		return
	}
	t, s := k.m[k.target], k.m[1-k.target]
	if s.data.lacks(&k.acked) {
		k.fail("a synchronisation overwrote acknowledged writes with a copy that lacks them")
	}
	t.data, t.half, t.crashed, t.disk = s.data, false, false, upToDate
	t.history = append([]uint64{t.uuid}, t.history...)
	s.history = append([]uint64{s.bitmap}, s.history...)
	if s.disk == consistent {
		s.disk = upToDate
	}
	t.uuid, t.bitmap, s.bitmap, s.crashed = s.uuid, 0, 0, s.crashed && s.primary
	k.target = -1
	k.flag(0)
	k.flag(1)
}
