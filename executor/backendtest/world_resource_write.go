package backendtest

import (
	"errors"

	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
)

// HoldWrites sets whether writes to replicated volumes wait on their way: then each reaches the
// disks, and is acknowledged to the filesystem or the writer, by events only.
func (w *World) HoldWrites(hold bool) { w.change(func() { w.holdWrites = hold }) }

// write is a write on the device of a primary. Disks that cannot take it are detached; where one
// hangs, or writes are held, it waits. The lock is held.
func (r *resource) write(h *Host, number int64, block *[BlockBytes]byte) error {
	s := r.seats[h.node]
	b, side := r.bondOf(h.node)
	if n, begun := s.begun[number]; begun {
		err := r.await(b, side, s, number, n)
		if errors.Is(err, errHangs) || equal(r.writes[n][number], block) {
			return err // else it was another's, who is gone
		}
	}
	if err := r.canWrite(h); err != nil {
		return err
	}
	if len(r.writes) >= drbdmodel.MaxWrites {
		return errNoSpace
	}
	if err := r.failDisks(b, side, number); err != nil {
		return err
	}
	if err := r.canWrite(h); err != nil {
		return err
	}
	return r.begin(b, side, s, number, block)
}

// begin begins a write, and ends it unless writes are held.
func (r *resource) begin(b *bond, side int, s *seat, number int64, block *[BlockBytes]byte) error {
	n, begun := 0, false
	r.change(b, func(p *drbdmodel.Pair) {
		if n, begun = p.Begin(side, !r.world.holdWrites, !r.world.holdWrites); !begun {
			return
		}
		r.name(n, blocks{number: block})
		if !r.world.holdWrites {
			p.Complete(side)
		}
	})
	if !begun {
		return errIO
	}
	if s.begun == nil {
		s.begun = map[int64]int{}
	}
	s.begun[number] = n
	return r.await(b, side, s, number, n)
}

// await says what became of a write that was begun.
func (r *resource) await(b *bond, side int, s *seat, number int64, n int) error {
	if inFlight := b.pair.InFlight(side); inFlight.Has(n) {
		return errHangs
	}
	delete(s.begun, number)
	if !b.pair.Acknowledged(n) {
		return errIO
	}
	return nil
}

// failDisks detaches the disks that cannot take a write.
func (r *resource) failDisks(b *bond, side int, number int64) error {
	for i, node := range b.hosts {
		if s := b.pair.Observe(i); node == "" || s.Disk < inconsistent || i != side && !s.Connected() {
			continue
		}
		switch err := r.diskError(node, number); {
		case errors.Is(err, errHangs):
			return err
		case err != nil:
			r.change(b, func(p *drbdmodel.Pair) { p.BeginDetach(i) })
		}
	}
	return nil
}

// name keeps what a write of the model wrote. Numbers that no write got in this world stay empty.
func (r *resource) name(n int, write blocks) {
	for len(r.writes) <= n {
		r.writes = append(r.writes, nil)
	}
	r.writes[n] = write
}

// diskError is why the disk below a host's replica takes no write.
func (r *resource) diskError(node fsm.NodeID, number int64) error {
	h := r.world.host(node)
	pool := h.poolOf(r.id)
	if pool == nil {
		return errIO
	}
	return pool.canWrite(pool.images[r.id], number)
}
