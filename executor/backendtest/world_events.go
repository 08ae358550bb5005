package backendtest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Kinds of events.
const (
	// EventHandshake: two replicas meet.
	EventHandshake = "handshake"
	// EventSync: a synchronisation copies a block.
	EventSync = "sync"
	// EventSyncEnds: a synchronisation copies the rest, and ends.
	EventSyncEnds = "sync-ends"
	// EventDetachEnds: a disk that fails is detached.
	EventDetachEnds = "detach-ends"
	// EventWriteback: a kernel writes a dirty page to its device.
	EventWriteback = "writeback"
	// EventDiskSync: a disk writes its cache.
	EventDiskSync = "disk-sync"
	// EventWriteReachesOwn and EventWriteReachesPeer: writes of a primary reach one of its two disks.
	EventWriteReachesOwn  = "write-reaches-own"
	EventWriteReachesPeer = "write-reaches-peer"
	// EventWriteEnds: writes of a primary are on all disks that there are, and acknowledged to it.
	EventWriteEnds = "write-ends"
	// EventChildEnds: a tool that survived being killed does its effect, and ends.
	EventChildEnds = "child-ends"
)

// Event is something that a kernel or a disk may do now, by itself.
type Event struct {
	Kind   string
	Host   fsm.NodeID // empty for a handshake and a synchronisation
	Volume fsm.VolumeID

	world *World
	do    func()
}

// Name is for traces.
func (e Event) Name() string { return fmt.Sprintf("%s %s %s", e.Kind, e.Host, e.Volume) }

// Do has it happen. What is impossible by now does nothing.
func (e Event) Do() {
	if e.Kind != EventChildEnds {
		e.world.change(e.do)
		return
	}
	e.world.mu.Lock()
	defer e.world.mu.Unlock()
	e.do() // which knows whether anything changed
}

// Events lists what may happen now, in a fixed order.
func (w *World) Events() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events()
}

// Settle has everything happen until nothing is left that may: synchronisations end, caches are
// written, tools that were stuck end.
func (w *World) Settle() {
	for {
		events := slices.DeleteFunc(w.Events(), func(e Event) bool { return e.Kind == EventSync })
		if len(events) == 0 {
			return
		}
		events[0].Do()
	}
}

func (w *World) events() (all []Event) {
	for _, id := range sortedKeys(w.resources) {
		for _, b := range w.resources[id].bonds {
			all = append(all, w.resources[id].events(b)...)
		}
	}
	for _, h := range w.hosts {
		all = append(all, h.events()...)
	}
	for _, c := range w.children {
		if c.hangs {
			continue
		}
		all = append(all, Event{Kind: EventChildEnds, Host: c.host.node, Volume: c.at.Volume, world: w, do: func() { w.endChild(c) }})
	}
	return all
}

// events lists what two replicas may do.
func (r *resource) events(b *bond) (all []Event) {
	add := func(kind string, host fsm.NodeID, step func(p *drbdmodel.Pair)) {
		all = append(all, Event{Kind: kind, Host: host, Volume: r.id, world: r.world, do: func() {
			if slices.Contains(r.bonds, b) {
				r.change(b, step)
			}
		}})
	}
	if met := b.pair; b.hosts[0] != "" && b.hosts[1] != "" {
		if met.Handshake(); met != b.pair {
			add(EventHandshake, "", (*drbdmodel.Pair).Handshake)
		}
	}
	for side, node := range b.hosts {
		s := b.pair.Observe(side)
		if s.Disk == failed {
			add(EventDetachEnds, node, func(p *drbdmodel.Pair) { p.EndDetach(side) })
		}
		if r.syncHangs(b) {
			continue
		}
		if s.Connection == syncTarget {
			add(EventSync, "", func(p *drbdmodel.Pair) { r.sync(b, p, side, 1) })
			add(EventSyncEnds, "", func(p *drbdmodel.Pair) { r.sync(b, p, side, drbdmodel.MaxWrites) })
		}
		if s.Primary && !s.Suspended && b.pair.InFlight(side) != (drbdmodel.Blocks{}) {
			r.addWrites(b, side, func(kind string, step func(p *drbdmodel.Pair)) { add(kind, node, step) })
		}
	}
	return all
}

// addWrites adds what may become of the writes that are on their way from a primary.
func (r *resource) addWrites(b *bond, side int, add func(kind string, step func(p *drbdmodel.Pair))) {
	own, peers := b.pair, b.pair
	if own.Reach(side, false); own != b.pair {
		add(EventWriteReachesOwn, func(p *drbdmodel.Pair) { p.Reach(side, false) })
	}
	if peers.Reach(side, true); peers != b.pair {
		add(EventWriteReachesPeer, func(p *drbdmodel.Pair) { p.Reach(side, true) })
	}
	add(EventWriteEnds, func(p *drbdmodel.Pair) { p.Complete(side) })
}

// syncHangs reports whether a disk hangs that a synchronisation reads or writes.
func (r *resource) syncHangs(b *bond) bool {
	for _, node := range b.hosts {
		if node == "" {
			continue
		}
		if p := r.world.host(node).poolOf(r.id); p != nil && p.hanging {
			return true
		}
	}
	return false
}

// sync copies blocks to a target, whose disk may fail.
func (r *resource) sync(b *bond, p *drbdmodel.Pair, target, n int) {
	source := r.world.host(b.hosts[1-target]).poolOf(r.id)
	switch {
	case r.diskError(b.hosts[target], superblock) != nil:
		p.BeginDetach(target)
	case source == nil || source.canRead() != nil:
		p.BeginDetach(1 - target)
	case n < drbdmodel.MaxWrites:
		p.Sync(n)
	default:
		p.FinishSync()
	}
}

// events lists what a host's kernel and disks may do.
func (h *Host) events() (all []Event) {
	var seen []*filesystem
	for _, m := range h.mounts {
		f := m.filesystem
		if f == nil || slices.Contains(seen, f) || !f.canWriteBack() {
			continue
		}
		seen = append(seen, f)
		all = append(all, Event{Kind: EventWriteback, Host: h.node, Volume: f.target.volume, world: h.world, do: func() {
			if len(f.dirty) > 0 {
				_ = f.writeBack()
			}
		}})
	}
	for _, p := range h.pools {
		for _, id := range sortedKeys(p.images) {
			if img := p.images[id]; len(img.unsynced) > 0 && !p.hanging {
				all = append(all, Event{Kind: EventDiskSync, Host: h.node, Volume: id, world: h.world, do: func() { img.unsynced = nil }})
			}
		}
	}
	return all
}

// canWriteBack reports whether the kernel may write a dirty page now. The lock is held.
func (f *filesystem) canWriteBack() bool {
	return len(f.dirty) > 0 && !f.frozen() && !f.target.hangs() && !f.target.isBegun(f.dirty[0].number)
}

// isBegun reports whether a write of a block is on its way to the disks. The lock is held.
func (t target) isBegun(number int64) bool {
	if t.mapped != nil {
		return t.mapped.below.isBegun(number + luksBlocks)
	}
	if !t.replicated || !t.exists() {
		return false
	}
	r := t.host.world.resources[t.volume]
	b, side := r.bondOf(t.host.node)
	n, begun := r.seats[t.host.node].begun[number]
	inFlight := b.pair.InFlight(side)
	return begun && inFlight.Has(n)
}

// hangs reports whether a write would wait. The lock is held.
func (t target) hangs() bool {
	if t.mapped != nil {
		return t.mapped.below.hangs()
	}
	if t.replicated {
		r := t.host.world.resources[t.volume]
		return errors.Is(r.canWrite(t.host), errHangs) || r.syncHangs(r.bondAt(t.host.node))
	}
	p := t.host.poolOf(t.volume)
	return p != nil && p.hanging
}

func (r *resource) bondAt(node fsm.NodeID) *bond {
	b, _ := r.bondOf(node)
	return b
}

// child is a tool that survives being killed.
type child struct {
	host *Host
	at   Boundary
	act  func() error
	done chan struct{}
	// hangs: it was tried, and nothing has changed since.
	hangs bool
}

// StuckError says that a tool survives being killed.
type StuckError struct {
	what string
	done <-chan struct{}
}

func (e *StuckError) Error() string { return e.what + " does not end although it was killed" }

// Stuck returns a channel that is closed when the tool has ended.
func (e *StuckError) Stuck() <-chan struct{} { return e.done }

func (w *World) addChild(h *Host, at Boundary, act func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := &child{host: h, at: at, act: act, done: make(chan struct{})}
	w.children = append(w.children, c)
	return &StuckError{at.Part + "." + at.Effect, c.done}
}

// endChild does what a stuck tool was started for. The lock is held.
func (w *World) endChild(c *child) {
	i := slices.Index(w.children, c)
	if i < 0 {
		return
	}
	if c.hangs = errors.Is(c.act(), errHangs); c.hangs {
		return
	}
	w.children = slices.Delete(w.children, i, i+1)
	close(c.done)
	w.noteChange()
}

// dropChildren ends the stuck tools of a host that loses its power. The lock is held.
func (w *World) dropChildren(h *Host) {
	w.children = slices.DeleteFunc(w.children, func(c *child) bool {
		if c.host == h {
			close(c.done)
		}
		return c.host == h
	})
}
