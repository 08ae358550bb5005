package raftnode

import (
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// maxListed is how many touched volumes a watch lists before it says "all".
const maxListed = 65_536

// Interest says which touches a watch wants.
type Interest struct {
	Volume fsm.VolumeID // this volume only
	Node   fsm.NodeID   // this node's volumes and its own record
	All    bool
}

// Watch wakes on touches of interest until it is closed.
type Watch struct {
	// C gets a value when there is something to Take; never blocks the member.
	C <-chan struct{}

	hub      *hub
	interest Interest
	wake     chan struct{}

	mu      sync.Mutex
	touched map[fsm.VolumeID]struct{}
	all     bool
}

// Watch begins a watch. All that is touched from then on, and everything after a
// restore, comes out of Take.
func (m *Member) Watch(i Interest) *Watch { return m.hub.watch(i) }

// Take returns and forgets the volumes touched; all is true when everything may
// have changed (a restore, or too many touches to list). An empty id stands for
// a node's own record.
func (w *Watch) Take() (volumes []fsm.VolumeID, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	volumes = make([]fsm.VolumeID, 0, len(w.touched))
	for id := range w.touched {
		volumes = append(volumes, id)
	}
	all = w.all
	w.touched, w.all = nil, false
	slices.Sort(volumes)
	return volumes, all
}

// Close ends the watch.
func (w *Watch) Close() { w.hub.forget(w) }

// note adds a touch, or everything, and wakes the watcher. Its memory is bounded.
func (w *Watch) note(id fsm.VolumeID, all bool) {
	w.mu.Lock()
	if w.touched == nil {
		w.touched = make(map[fsm.VolumeID]struct{})
	}
	if !w.all {
		w.touched[id] = struct{}{}
	}
	if all || len(w.touched) > maxListed {
		w.touched, w.all = nil, true
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// hub knows who watches what.
type hub struct {
	mu       sync.Mutex
	byVolume map[fsm.VolumeID]map[*Watch]struct{}
	byNode   map[fsm.NodeID]map[*Watch]struct{}
	all      map[*Watch]struct{}
}

func newHub() *hub {
	return &hub{
		byVolume: make(map[fsm.VolumeID]map[*Watch]struct{}),
		byNode:   make(map[fsm.NodeID]map[*Watch]struct{}),
		all:      make(map[*Watch]struct{}),
	}
}

func (h *hub) watch(i Interest) *Watch {
	w := &Watch{hub: h, interest: i, wake: make(chan struct{}, 1)}
	w.C = w.wake
	h.mu.Lock()
	defer h.mu.Unlock()
	if i.All {
		h.all[w] = struct{}{}
		return w
	}
	if i.Volume != "" {
		join(h.byVolume, i.Volume, w)
	}
	if i.Node != "" {
		join(h.byNode, i.Node, w)
	}
	return w
}

func (h *hub) forget(w *Watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, w)
	leave(h.byVolume, w.interest.Volume, w)
	leave(h.byNode, w.interest.Node, w)
}

// publish tells the watchers of each touch. The touched state is applied already.
func (h *hub) publish(touches []fsm.Touch) {
	if len(touches) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range touches {
		for w := range h.all {
			w.note(t.Volume, false)
		}
		if t.Node != "" {
			notify(h.byNode[t.Node], t.Volume)
		}
		if t.Volume != "" {
			notify(h.byVolume[t.Volume], t.Volume)
		}
	}
}

// everything tells all watchers that anything may have changed.
func (h *hub) everything() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.all {
		w.note("", true)
	}
	for _, set := range h.byNode {
		notifyAll(set)
	}
	for _, set := range h.byVolume {
		notifyAll(set)
	}
}

func notify(set map[*Watch]struct{}, id fsm.VolumeID) {
	for w := range set {
		w.note(id, false)
	}
}

func notifyAll(set map[*Watch]struct{}) {
	for w := range set {
		w.note("", true)
	}
}

func join[K comparable](sets map[K]map[*Watch]struct{}, key K, w *Watch) {
	if sets[key] == nil {
		sets[key] = make(map[*Watch]struct{})
	}
	sets[key][w] = struct{}{}
}

func leave[K comparable](sets map[K]map[*Watch]struct{}, key K, w *Watch) {
	delete(sets[key], w)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
