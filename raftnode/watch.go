package raftnode

import (
	"cmp"
	"slices"
	"sync"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// maxListedChanges is how many changes a watch lists before it reports "all".
const maxListedChanges = 65_536

// Interest selects the changes that a watch reports.
type Interest struct {
	Volumes  []fsm.VolumeID      // these volumes only
	Node     fsm.NodeID          // this node's volumes and snapshots, and its own record
	Snapshot fsm.SnapshotID      // this snapshot only
	Group    fsm.GroupSnapshotID // this group and its members
	All      bool
}

// Watch wakes on changes of interest until it is closed.
type Watch struct {
	// C gets a value when TakeChanges has something; it never blocks the member.
	C <-chan struct{}

	hub      *watchHub
	interest Interest
	wake     chan struct{}

	mu      sync.Mutex
	changes map[fsm.Change]struct{}
	all     bool
}

// Watch begins a watch. All changes from then on, and "all" after a restore, are returned
// by TakeChanges or TakeVolumes.
func (m *Member) Watch(i Interest) *Watch { return m.watches.watch(i) }

// TakeVolumes returns and forgets the changed volumes; all is true when everything may
// have changed (a restore, or too many changes to list). An empty id stands for a
// node's own record. Changes of snapshots and groups are forgotten with them.
func (w *Watch) TakeVolumes() (volumes []fsm.VolumeID, all bool) {
	changes, all := w.TakeChanges()
	volumes = make([]fsm.VolumeID, 0, len(changes))
	for _, c := range changes {
		if c.Snapshot == "" && c.Group == "" {
			volumes = append(volumes, c.Volume)
		}
	}
	return volumes, all
}

// TakeChanges returns and forgets all changes, sorted by volume, snapshot and group, without
// their nodes; all is as in TakeVolumes. An empty change stands for a node's own record.
func (w *Watch) TakeChanges() (changes []fsm.Change, all bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes = make([]fsm.Change, 0, len(w.changes))
	for c := range w.changes {
		changes = append(changes, c)
	}
	all = w.all
	w.changes, w.all = nil, false
	slices.SortFunc(changes, compareChanges)
	return changes, all
}

func compareChanges(a, b fsm.Change) int {
	return cmp.Or(cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Snapshot, b.Snapshot), cmp.Compare(a.Group, b.Group))
}

// Close ends the watch.
func (w *Watch) Close() { w.hub.remove(w) }

// add adds a change, or "all", and wakes the watcher. Its memory is bounded.
func (w *Watch) add(c fsm.Change, all bool) {
	c.Node, c.WakeWaiters = "", false // the watcher reads the state
	w.mu.Lock()
	if w.changes == nil {
		w.changes = make(map[fsm.Change]struct{})
	}
	if !w.all {
		w.changes[c] = struct{}{}
	}
	if all || len(w.changes) > maxListedChanges {
		w.changes, w.all = nil, true
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// watchHub indexes the watches by what they watch.
type watchHub struct {
	mu         sync.Mutex
	byVolume   map[fsm.VolumeID]map[*Watch]struct{}
	byNode     map[fsm.NodeID]map[*Watch]struct{}
	bySnapshot map[fsm.SnapshotID]map[*Watch]struct{}
	byGroup    map[fsm.GroupSnapshotID]map[*Watch]struct{}
	all        map[*Watch]struct{}
}

func newWatchHub() *watchHub {
	return &watchHub{
		byVolume:   make(map[fsm.VolumeID]map[*Watch]struct{}),
		byNode:     make(map[fsm.NodeID]map[*Watch]struct{}),
		bySnapshot: make(map[fsm.SnapshotID]map[*Watch]struct{}),
		byGroup:    make(map[fsm.GroupSnapshotID]map[*Watch]struct{}),
		all:        make(map[*Watch]struct{}),
	}
}

func (h *watchHub) watch(i Interest) *Watch {
	w := &Watch{hub: h, interest: i, wake: make(chan struct{}, 1)}
	w.C = w.wake
	h.mu.Lock()
	defer h.mu.Unlock()
	if i.All {
		h.all[w] = struct{}{}
		return w
	}
	for _, id := range i.Volumes {
		subscribe(h.byVolume, id, w)
	}
	subscribe(h.byNode, i.Node, w)
	subscribe(h.bySnapshot, i.Snapshot, w)
	subscribe(h.byGroup, i.Group, w)
	return w
}

func (h *watchHub) remove(w *Watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, w)
	for _, id := range w.interest.Volumes {
		unsubscribe(h.byVolume, id, w)
	}
	unsubscribe(h.byNode, w.interest.Node, w)
	unsubscribe(h.bySnapshot, w.interest.Snapshot, w)
	unsubscribe(h.byGroup, w.interest.Group, w)
}

// publish notifies the watches of each change, which is applied already.
func (h *watchHub) publish(changes []fsm.Change) {
	if len(changes) == 0 {
		return
	}
	if len(changes) > 1 && plantedbug.Is(plantedbug.WatchSkips) {
		changes = changes[1:]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range changes {
		if c.WakeWaiters {
			notifySets(h.byVolume)
			notifySets(h.bySnapshot)
			notifySets(h.byGroup)
		}
		notifyEach(h.all, c)
		notifyEach(h.byNode[c.Node], c)
		notifyEach(h.byVolume[c.Volume], c)
		notifyEach(h.bySnapshot[c.Snapshot], c)
		notifyEach(h.byGroup[c.Group], c)
	}
}

// publishAll notifies all watches that anything may have changed.
func (h *watchHub) publishAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	notifyAll(h.all)
	notifySets(h.byNode)
	notifySets(h.byVolume)
	notifySets(h.bySnapshot)
	notifySets(h.byGroup)
}

func notifyEach(set map[*Watch]struct{}, c fsm.Change) {
	for w := range set {
		w.add(c, false)
	}
}

func notifySets[K comparable](sets map[K]map[*Watch]struct{}) {
	for _, set := range sets {
		notifyAll(set)
	}
}

func notifyAll(set map[*Watch]struct{}) {
	for w := range set {
		w.add(fsm.Change{}, true)
	}
}

// subscribe records the interest; the empty key is no interest.
func subscribe[K ~string](sets map[K]map[*Watch]struct{}, key K, w *Watch) {
	if key == "" {
		return
	}
	if sets[key] == nil {
		sets[key] = make(map[*Watch]struct{})
	}
	sets[key][w] = struct{}{}
}

func unsubscribe[K comparable](sets map[K]map[*Watch]struct{}, key K, w *Watch) {
	delete(sets[key], w)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
