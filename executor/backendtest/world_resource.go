package backendtest

import (
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// resource is the DRBD of one replicated volume on all hosts: what its replicas' content is made
// of, and which two hosts replicate to each other.
type resource struct {
	world  *World
	id     fsm.VolumeID
	size   int64 // bytes of its device
	seats  map[fsm.NodeID]*seat
	bonds  []*bond
	writes []blocks // by number: the blocks of one write
}

// seat is what one host has of a resource beside the model.
type seat struct {
	minor uint32
	peer  fsm.NodeID       // whom its last connection is to
	downs int              // counts the times that the kernel lost the resource
	shown drbdmodel.Blocks // the writes that the image's content is made of now
	// begun holds, by block, the numbers of writes that were begun here, until whoever began them
	// knows what became of them.
	begun map[int64]int
}

// bond is the model of two replicas. A replica whose host has no peer, or none that knows of it,
// is alone in one.
type bond struct {
	pair  drbdmodel.Pair
	hosts [2]fsm.NodeID // empty: nobody
}

func (s *seat) devicePath() string   { return fmt.Sprintf("/dev/drbd%d", s.minor) }
func (s *seat) deviceNumber() uint64 { return 147<<8 | uint64(s.minor) }

// resource returns a volume's, which is made when it is asked for first. The lock is held.
func (w *World) resource(id fsm.VolumeID) *resource {
	r := w.resources[id]
	if r == nil {
		r = &resource{world: w, id: id, seats: map[fsm.NodeID]*seat{}}
		w.resources[id] = r
	}
	return r
}

// bondOf returns where a host's replica is, which is alone in the beginning. The lock is held.
func (r *resource) bondOf(node fsm.NodeID) (b *bond, side int) {
	for _, b := range r.bonds {
		for side, host := range b.hosts {
			if host == node {
				return b, side
			}
		}
	}
	b = &bond{pair: drbdmodel.New(), hosts: [2]fsm.NodeID{node}}
	r.bonds = append(r.bonds, b)
	r.seats[node] = &seat{}
	return b, 0
}

// observe returns the model's state of a host's replica.
func (r *resource) observe(node fsm.NodeID) drbdmodel.State {
	b, side := r.bondOf(node)
	return b.pair.Observe(side)
}

func (r *resource) inKernel(node fsm.NodeID) bool {
	return r.seats[node] != nil && r.observe(node).InKernel
}

// join makes two hosts each other's peers where both are without another one. A host that names
// another peer than it has leaves that one.
func (r *resource) join(node, peer fsm.NodeID) {
	b, side := r.bondOf(node)
	if b.hosts[1-side] == peer {
		return
	}
	if b.hosts[1-side] != "" {
		b, side = r.leave(b, side)
	}
	if r.seats[peer] == nil {
		return
	}
	other, place := r.bondOf(peer)
	if other.hosts[1-place] != "" {
		return
	}
	other.pair.Move(1-place, &b.pair, side)
	other.hosts[1-place] = node
	r.drop(b)
	r.world.refreshLinks()
}

// leave makes a replica one that is alone.
func (r *resource) leave(b *bond, side int) (alone *bond, place int) {
	r.change(b, func(p *drbdmodel.Pair) { p.SetLink(false) })
	alone = &bond{pair: drbdmodel.New(), hosts: [2]fsm.NodeID{b.hosts[side]}}
	alone.pair.Move(0, &b.pair, side)
	b.hosts[side] = ""
	r.bonds = append(r.bonds, alone)
	r.world.refreshLinks()
	return alone, 0
}

func (r *resource) drop(gone *bond) {
	for i, b := range r.bonds {
		if b == gone {
			r.bonds = append(r.bonds[:i:i], r.bonds[i+1:]...)
			return
		}
	}
}

// change does one step of the model, and what follows at once: images hold what the model says,
// handlers are called, watchers are notified. The lock is held.
func (r *resource) change(b *bond, step func(p *drbdmodel.Pair)) {
	for _, other := range r.bonds {
		if other != b {
			b.pair.Continue(&other.pair)
		}
	}
	before := [2]drbdmodel.State{b.pair.Observe(0), b.pair.Observe(1)}
	step(&b.pair)
	for side, node := range b.hosts {
		if node == "" {
			continue
		}
		after := b.pair.Observe(side)
		r.show(node, b.pair.Content(side))
		if after.Disconnects != before[side].Disconnects && after.Primary {
			r.world.callHandler(&HandlerCall{Host: node, Volume: r.id, loss: after.Disconnects, downs: r.seats[node].downs})
		}
		if shows(after) != shows(before[side]) {
			r.world.host(node).notify(r.id)
		}
	}
	if v := b.pair.Violation(); v != "" && !r.world.ledger.of(r.id).tolerance.Loss {
		r.world.violate("%s: %s", r.id, v)
	}
}

// shows is what of a state the kernel's events are about.
func shows(s drbdmodel.State) drbdmodel.State {
	s.Metadata, s.HasAll = drbdmodel.Metadata{}, false
	return s
}

// show makes a host's image hold the writes that the model says it has.
func (r *resource) show(node fsm.NodeID, content drbdmodel.Blocks) {
	s := r.seats[node]
	if s.shown == content {
		return
	}
	shown := s.shown
	s.shown = content
	img := r.world.host(node).image(r.id)
	if img == nil {
		return
	}
	for n, write := range r.writes {
		if shown.Has(n) == content.Has(n) {
			continue
		}
		for number := range write {
			img.place(number, r.latest(content, number))
		}
	}
}

// latest is what a block holds after the writes of a content.
func (r *resource) latest(content drbdmodel.Blocks, number int64) (block *[BlockBytes]byte) {
	for n, write := range r.writes {
		if b, wrote := write[number]; wrote && content.Has(n) {
			block = b
		}
	}
	return block
}

// canWrite is why the device on a host takes no writes now. The lock is held.
func (r *resource) canWrite(h *Host) error {
	b, side := r.bondOf(h.node)
	s := b.pair.Observe(side)
	switch {
	case !s.Primary:
		return errors.New("wrong medium type: the device is not primary")
	case s.Suspended:
		return errHangs
	case !b.pair.Accessible(side):
		return errIO
	}
	return nil
}

// read is what the device on a host returns. The lock is held.
func (r *resource) read(h *Host) (blocks, error) {
	if err := r.canWrite(h); err != nil {
		return nil, err
	}
	b, side := r.bondOf(h.node)
	from := side
	if b.pair.Observe(side).Disk != upToDate {
		from = 1 - side
	}
	pool := r.world.host(b.hosts[from]).poolOf(r.id)
	if pool == nil {
		return nil, errIO
	}
	switch err := pool.canRead(); {
	case err == nil:
		return pool.images[r.id].content, nil
	case errors.Is(err, errHangs):
		return nil, err
	}
	r.change(b, func(p *drbdmodel.Pair) { p.BeginDetach(from) })
	return nil, errIO
}

// holdsDisk reports whether the host's kernel has the volume's disk attached. The lock is held.
func (w *World) holdsDisk(h *Host, id fsm.VolumeID) bool {
	r := w.resources[id]
	return r != nil && r.seats[h.node] != nil && r.observe(h.node).Disk >= fsmpb.DiskState_DISK_STATE_FAILED
}

// eraseReplica is the removal of a replica's image: its metadata are gone, too. The lock is held.
func (w *World) eraseReplica(h *Host, id fsm.VolumeID) {
	r := w.resources[id]
	if r == nil || r.seats[h.node] == nil {
		return
	}
	b, side := r.bondOf(h.node)
	r.change(b, func(p *drbdmodel.Pair) {
		p.FailDisk(side)
		p.Erase(side)
	})
}

// replicaDisk is what a replica's image holds by the model; nothing where there is no replica. The
// lock is held.
func (w *World) replicaDisk(h *Host, id fsm.VolumeID) (d drbdmodel.Disk) {
	if r := w.resources[id]; r != nil && r.seats[h.node] != nil {
		b, side := r.bondOf(h.node)
		d = b.pair.Disk(side)
	}
	return d
}

// revertReplica is the return of a replica's image to what it held once, metadata included. The
// image itself is missing meanwhile. The lock is held.
func (w *World) revertReplica(h *Host, id fsm.VolumeID, to drbdmodel.Disk) {
	if r := w.resources[id]; r != nil && r.seats[h.node] != nil {
		b, side := r.bondOf(h.node)
		r.change(b, func(p *drbdmodel.Pair) { p.RevertDisk(side, to) })
	}
}

// cutMetadata is the removal of a replica's metadata with the end of its image. The lock is held.
func (w *World) cutMetadata(h *Host, id fsm.VolumeID) {
	if r := w.resources[id]; r != nil && r.seats[h.node] != nil {
		b, side := r.bondOf(h.node)
		r.change(b, func(p *drbdmodel.Pair) { p.WipeMetadata(side) })
	}
}

// powerOffReplicas is the loss of a host's kernel. The lock is held.
func (w *World) powerOffReplicas(h *Host) {
	w.eachReplica(h, func(r *resource, b *bond, side int) {
		r.seats[h.node].downs++
		r.seats[h.node].begun = nil
		r.change(b, func(p *drbdmodel.Pair) { p.PowerOff(side) })
	})
}

func (w *World) powerOnReplicas(h *Host) {
	w.eachReplica(h, func(r *resource, b *bond, side int) {
		r.change(b, func(p *drbdmodel.Pair) { p.PowerOn(side) })
	})
}

func (w *World) eachReplica(h *Host, do func(r *resource, b *bond, side int)) {
	for _, id := range sortedKeys(w.resources) {
		if r := w.resources[id]; r.seats[h.node] != nil {
			b, side := r.bondOf(h.node)
			do(r, b, side)
		}
	}
}

// refreshLinks tells the model which hosts reach each other. The lock is held.
func (w *World) refreshLinks() {
	for _, id := range sortedKeys(w.resources) {
		r := w.resources[id]
		for _, b := range r.bonds {
			if up := w.links.connects(b.hosts[0], b.hosts[1]); up != b.pair.LinkUp() {
				r.change(b, func(p *drbdmodel.Pair) { p.SetLink(up) })
			}
		}
	}
}
