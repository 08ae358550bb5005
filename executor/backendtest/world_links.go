package backendtest

import "github.com/holdfast-storage/holdfast/fsm"

// Links is the network between hosts. Each direction is cut and mended by itself; whoever models
// something else than DRBD asks Up, also for names that are no hosts.
type Links struct {
	world *World
	cut   map[[2]fsm.NodeID]bool
}

// Cut cuts one direction. DRBD needs both.
func (l *Links) Cut(from, to fsm.NodeID) { l.set(from, to, true) }

// Mend mends one direction.
func (l *Links) Mend(from, to fsm.NodeID) { l.set(from, to, false) }

// Up reports whether what one sends reaches the other.
func (l *Links) Up(from, to fsm.NodeID) bool {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	return !l.cut[[2]fsm.NodeID{from, to}]
}

func (l *Links) set(from, to fsm.NodeID, cut bool) {
	l.world.change(func() {
		l.cut[[2]fsm.NodeID{from, to}] = cut
		l.world.refreshLinks()
	})
}

// connects reports whether both directions work. The lock is held.
func (l *Links) connects(a, b fsm.NodeID) bool {
	return !l.cut[[2]fsm.NodeID{a, b}] && !l.cut[[2]fsm.NodeID{b, a}]
}
