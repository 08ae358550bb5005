package raftnode

import (
	"cmp"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
)

// maxListed is how many touches a watch lists before it says "all".
const maxListed = 65_536

// Interest says which touches a watch wants.
type Interest struct {
	Volume   fsm.VolumeID        // this volume only
	Node     fsm.NodeID          // this node's volumes and snapshots, and its own record
	Snapshot fsm.SnapshotID      // this snapshot only
	Group    fsm.GroupSnapshotID // this group and its members
	All      bool
}

// Watch wakes on touches of interest until it is closed.
type Watch struct {
	// C gets a value when there is something to Take; never blocks the member.
	C <-chan struct{}

	hub      *hub
	interest Interest
	wake     chan struct{}

	mu      sync.Mutex
	touched map[fsm.Change]struct{}
	all     bool
}

// Watch begins a watch. All that is touched from then on, and everything after a
// restore, comes out of Take.
func (m *Member) Watch(i Interest) *Watch { return m.hub.watch(i) }

// Take returns and forgets the volumes touched; all is true when everything may
// have changed (a restore, or too many touches to list). An empty id stands for
// a node's own record. Touches of snapshots and groups are forgotten with them.
func (w *Watch) Take() (volumes []fsm.VolumeID, all bool) {
	touched, all := w.Touched()
	volumes = make([]fsm.VolumeID, 0, len(touched))
	for _, t := range touched {
		if t.Snapshot == "" && t.Group == "" {
			volumes = append(volumes, t.Volume)
		}
	}
	return volumes, all
}

// Touched is Take with all that was touched, sorted by volume, snapshot and group;
// it does not say by which nodes. An empty touch stands for a node's own record.
func (w *Watch) Touched() (touched []fsm.Change, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	touched = make([]fsm.Change, 0, len(w.touched))
	for t := range w.touched {
		touched = append(touched, t)
	}
	all = w.all
	w.touched, w.all = nil, false
	slices.SortFunc(touched, compareTouches)
	return touched, all
}

func compareTouches(a, b fsm.Change) int {
	return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Snapshot, b.Snapshot), cmp.Compare(a.Group, b.Group))
}

// Close ends the watch.
func (w *Watch) Close() { w.hub.forget(w) }

// note adds a touch, or everything, and wakes the watcher. Its memory is bounded.
func (w *Watch) note(t fsm.Change, all bool) {
	t.Node, t.WakeWaiters = "", false // the watcher reads the state
	w.mu.Lock()
	if w.touched == nil {
		w.touched = make(map[fsm.Change]struct{})
	}
	if !w.all {
		w.touched[t] = struct{}{}
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
	mu         sync.Mutex
	byVolume   map[fsm.VolumeID]map[*Watch]struct{}
	byNode     map[fsm.NodeID]map[*Watch]struct{}
	bySnapshot map[fsm.SnapshotID]map[*Watch]struct{}
	byGroup    map[fsm.GroupSnapshotID]map[*Watch]struct{}
	all        map[*Watch]struct{}
}

func newHub() *hub {
	return &hub{
		byVolume:   make(map[fsm.VolumeID]map[*Watch]struct{}),
		byNode:     make(map[fsm.NodeID]map[*Watch]struct{}),
		bySnapshot: make(map[fsm.SnapshotID]map[*Watch]struct{}),
		byGroup:    make(map[fsm.GroupSnapshotID]map[*Watch]struct{}),
		all:        make(map[*Watch]struct{}),
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
	join(h.byVolume, i.Volume, w)
	join(h.byNode, i.Node, w)
	join(h.bySnapshot, i.Snapshot, w)
	join(h.byGroup, i.Group, w)
	return w
}

func (h *hub) forget(w *Watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, w)
	leave(h.byVolume, w.interest.Volume, w)
	leave(h.byNode, w.interest.Node, w)
	leave(h.bySnapshot, w.interest.Snapshot, w)
	leave(h.byGroup, w.interest.Group, w)
}

// publish tells the watchers of each touch. The touched state is applied already.
func (h *hub) publish(touches []fsm.Change) {
	if len(touches) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range touches {
		if t.WakeWaiters {
			everyone(h.byVolume)
			everyone(h.bySnapshot)
			everyone(h.byGroup)
		}
		notify(h.all, t)
		notify(h.byNode[t.Node], t)
		notify(h.byVolume[t.Volume], t)
		notify(h.bySnapshot[t.Snapshot], t)
		notify(h.byGroup[t.Group], t)
	}
}

// everything tells all watchers that anything may have changed.
func (h *hub) everything() {
	h.mu.Lock()
	defer h.mu.Unlock()
	notifyAll(h.all)
	everyone(h.byNode)
	everyone(h.byVolume)
	everyone(h.bySnapshot)
	everyone(h.byGroup)
}

func notify(set map[*Watch]struct{}, t fsm.Change) {
	for w := range set {
		w.note(t, false)
	}
}

func everyone[K comparable](sets map[K]map[*Watch]struct{}) {
	for _, set := range sets {
		notifyAll(set)
	}
}

func notifyAll(set map[*Watch]struct{}) {
	for w := range set {
		w.note(fsm.Change{}, true)
	}
}

// join notes the interest; the empty key is none, so that nobody is ever found under it.
func join[K ~string](sets map[K]map[*Watch]struct{}, key K, w *Watch) {
	if key == "" {
		return
	}
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
