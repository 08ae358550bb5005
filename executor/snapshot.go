package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// cutting is what the executor knows of one snapshot between two looks at the host.
type cutting struct {
	id fsm.SnapshotID

	// Guarded by Executor.mu.
	wish   *fsm.DesiredSnapshot
	wishAt fsm.Epoch
	busy   bool // a worker has it
	again  bool // it is to be looked at when he is done
	behind bool // it is to be looked at when the session got on
	flying map[fact]struct{}
	told   map[fact]telling
	unsaid bool // a fact was not reported again, as it was under way

	// Of the worker that has it.
	slots    *slots
	record   snapshotRecord
	held     *hold
	stuck    <-chan struct{} // a child that cannot be killed works on it; nil: none
	failures int
	failed   attempt              // which of the operator's attempts they belong to
	tried    *fsm.DesiredSnapshot // what was looked at last, for whoever says why that failed
}

// snapshot finds or makes the entry of a snapshot. The caller holds mu, or is alone.
func (e *Executor) snapshot(id fsm.SnapshotID) *cutting {
	c, ok := e.snapshots[id]
	if !ok {
		c = &cutting{id: id, flying: map[fact]struct{}{}, told: map[fact]telling{}}
		e.snapshots[id] = c
	}
	return c
}

// forgetSnapshots drops the wishes for snapshots that a full update does not list. The
// caller holds mu.
func (e *Executor) forgetSnapshots(u *Update) {
	listed := map[fsm.SnapshotID]bool{}
	for i := range u.Snapshots {
		listed[u.Snapshots[i].Snapshot] = true
	}
	for id := range e.snapshots {
		if !listed[id] {
			e.wishedSnapshot(id, nil, u.At)
		}
	}
}

// wishedSnapshot notes what the log wants of a snapshot, nil when it wants nothing.
// The caller holds mu.
func (e *Executor) wishedSnapshot(id fsm.SnapshotID, w *fsm.DesiredSnapshot, at fsm.Epoch) {
	c, known := e.snapshots[id]
	if !known {
		if w == nil || !id.Valid() {
			return
		}
		c = e.snapshot(id)
	}
	c.wish, c.wishAt = w, at
	for f, told := range c.told {
		if at.Compare(told.at) >= 0 {
			delete(c.told, f)
		}
	}
	e.cuts.add(id)
}

// cutter looks at one queued snapshot after the other.
func (e *Executor) cutter() {
	for {
		id, ok := e.cuts.get()
		if !ok {
			return
		}
		if c := e.takeSnapshot(id); c != nil {
			e.reconcileSnapshot(c)
			e.leaveSnapshot(c)
		}
	}
}

func (e *Executor) takeSnapshot(id fsm.SnapshotID) *cutting {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.snapshots[id]
	if c == nil {
		return nil
	}
	if c.busy {
		c.again = true
		return nil
	}
	c.busy = true
	return c
}

// leaveSnapshot lets others have it, and drops what the log does not know and of
// which nothing is left.
func (e *Executor) leaveSnapshot(c *cutting) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c.busy = false
	switch {
	case c.again:
		c.again = false
		e.cuts.add(c.id)
	case e.session.number != 0 && c.wish == nil && c.held == nil && c.stuck == nil && c.slots != nil && c.record.Phase == cutNone && len(c.flying) == 0:
		delete(e.snapshots, c.id)
	}
}

// reconcileSnapshot looks at the snapshot once; a failure is tried again later, and
// told where an operation waits for it.
func (e *Executor) reconcileSnapshot(c *cutting) {
	e.mu.Lock()
	c.tried = c.wish
	e.mu.Unlock()
	err := e.openSnapshot(c)
	if err == nil {
		err = e.driveSnapshot(e.ctx, c)
	}
	switch {
	case err == nil:
		c.failures = 0
	case e.ctx.Err() != nil, errors.Is(err, errLater):
	default:
		e.setAside(c, err)
		e.failedSnapshot(c, err)
		c.failures++
		e.cuts.addAfter(c.id, backoff(c.failures))
	}
}

// driveSnapshot does step after step until nextCut has none, then tells what is new.
func (e *Executor) driveSnapshot(ctx context.Context, c *cutting) error {
	for range stepLimit {
		s, at, err := e.lookAtSnapshot(ctx, c)
		if err != nil {
			return err
		}
		next := nextCut(s)
		if c.isStuck(s, next.kind) {
			return errLater
		}
		switch next.kind {
		case stepNone:
			e.tellSnapshot(c, s)
			return nil
		case stepRefuse:
			return next.refusal
		}
		if err := e.doSnapshot(ctx, c, s, next.kind, at); err != nil {
			return err
		}
	}
	return fmt.Errorf("snapshot %s is not as it should be after %d steps", c.id, stepLimit)
}

// lookAtSnapshot observes. Nothing is known of a snapshot without a wish but what the
// record says, which is all that has to go.
func (e *Executor) lookAtSnapshot(ctx context.Context, c *cutting) (*cutSituation, fsm.Epoch, error) {
	e.mu.Lock()
	s := &cutSituation{wish: c.wish, record: c.record, held: c.held, now: time.Now(), incarnationID: e.session.incarnationID}
	at := e.session.at
	s.fresh = e.session.number != 0 && e.session.adopted && at.Compare(e.seen.onDisk()) >= 0
	c.behind = !s.fresh
	e.mu.Unlock()
	c.tried = s.wish
	if s.wish == nil {
		return s, at, nil
	}
	if now := (attempt{s.wish.Operation, s.wish.Retry}); now != c.failed {
		c.failed, c.failures = now, 0
	}
	backend, err := e.cuttingBackend(s.wish)
	if err != nil {
		return nil, at, err
	}
	if s.have, err = backend.ObserveSnapshot(ctx, c.id); err != nil {
		return nil, at, fmt.Errorf("look at snapshot %s: %w", c.id, err)
	}
	return s, at, nil
}

// cuttingBackend is that of the snapshot's pool.
func (e *Executor) cuttingBackend(w *fsm.DesiredSnapshot) (SnapshotBackend, error) {
	b, ok := e.pools[w.Pool]
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "snapshot %s is in pool %q, which this host does not have", w.Snapshot, w.Pool)
	}
	view, err := e.replicatedSource(w, b)
	if err != nil {
		return nil, err
	}
	if view != nil {
		return view, nil
	}
	backend, ok := b.(SnapshotBackend)
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "pool %s cannot cut snapshots", w.Pool)
	}
	return backend, nil
}
