package backendtest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// World is several hosts in memory: their pools, block devices, filesystems and DRBD, and the
// network between them. What an executor is configured with belongs to a Process of a Host; the
// rest outlives processes as kernels and disks do.
//
// It has no goroutine, no timer and no random number of its own, and lists everything in a fixed
// order: what happens is decided by the Gate, and by whoever does the Events. Its lock is never
// held while anything waits. The only clock is time.Now, for the deadlines of freezes.
type World struct {
	mu         sync.Mutex
	gate       Gate
	hosts      []*Host
	links      Links
	resources  map[fsm.VolumeID]*resource
	handlers   []*HandlerCall
	children   []*child
	ledger     Ledger
	sequence   uint64 // of the last stamp
	headers    int    // counts the LUKS headers that were made
	violations []string
	holdWrites bool
	changed    chan struct{} // closed at the next change, if somebody waits for one
}

// NewWorld returns a world without hosts. A nil gate lets every effect pass.
func NewWorld(gate Gate) *World {
	w := &World{gate: gate, resources: map[fsm.VolumeID]*resource{}}
	w.links = Links{world: w, cut: map[[2]fsm.NodeID]bool{}}
	w.ledger = Ledger{world: w, volumes: map[fsm.VolumeID]*volumeLedger{}}
	return w
}

// AddHost adds a host that is up, with a pool of each configuration.
func (w *World) AddHost(node fsm.NodeID, pools ...PoolConfig) *Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := newHost(w, node)
	for _, config := range pools {
		h.pools = append(h.pools, newPool(h, config))
	}
	w.hosts = append(w.hosts, h)
	return h
}

// Host returns the host of a node, nil when there is none.
func (w *World) Host(node fsm.NodeID) *Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.host(node)
}

// Hosts returns all hosts in the order in which they were added.
func (w *World) Hosts() []*Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hosts)
}

// Links returns the network.
func (w *World) Links() *Links { return &w.links }

// Ledger returns what was acknowledged to the users of the volumes.
func (w *World) Ledger() *Ledger { return &w.ledger }

// Violations lists what must never happen and did, in the order in which it was noticed: an
// acknowledged stamp that a mount does not show, two hosts that accept writes, a first generation
// above two disks that differ, a format of what holds acknowledged stamps, and the violations of
// drbdmodel.
func (w *World) Violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.violations)
}

func (w *World) violate(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(w.violations, text) {
		w.violations = append(w.violations, text)
	}
}

// host returns a host, nil when there is none. The lock is held.
func (w *World) host(node fsm.NodeID) *Host {
	for _, h := range w.hosts {
		if h.node == node {
			return h
		}
	}
	return nil
}

// noteChange wakes whoever waits for a change. The lock is held.
func (w *World) noteChange() {
	for _, c := range w.children {
		c.hangs = false
	}
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// nextChange returns a channel that the next change closes. The lock is held.
func (w *World) nextChange() <-chan struct{} {
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.changed
}

// change calls a function under the lock, and wakes whoever waits for a change.
func (w *World) change(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
	w.noteChange()
}
