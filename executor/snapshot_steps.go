package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// doSnapshot does one step, and measures it. What a wish asks for is recorded as acted
// on first (S14); a thaw waits for nothing. Freezes and cuts have their fault points
// where they happen.
func (e *Executor) doSnapshot(ctx context.Context, c *cutting, s *cutSituation, kind stepKind, at fsm.Epoch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch kind {
	case stepThaw:
		e.hit("thaw.before")
		err := e.release(ctx, c.held)
		e.hit("thaw.after")
		if err == nil {
			c.held = nil
		}
		return err
	case stepForget, stepMiss:
		return e.recordOnly(c, kind)
	}
	if err := e.seen.reach(at, s.incarnationID); err != nil {
		return err
	}
	began := time.Now()
	err := e.performSnapshot(ctx, c, s, kind)
	if kind != stepFreeze && !errors.Is(err, errLater) {
		e.metrics.step(kind, began, err)
	}
	if err != nil {
		return fmt.Errorf("%s snapshot %s of volume %s: %w", kind, c.id, s.wish.Source, err)
	}
	return nil
}

func (e *Executor) recordOnly(c *cutting, kind stepKind) error {
	if kind == stepMiss {
		return e.saveSnapshot(c, snapshotRecord{Phase: cutMissing})
	}
	e.hit(string(stepForget) + ".before")
	err := e.forgetSnapshot(c)
	e.hit(string(stepForget) + ".after")
	return err
}

func (e *Executor) performSnapshot(ctx context.Context, c *cutting, s *cutSituation, kind stepKind) error {
	backend, err := e.cuttingBackend(s.wish)
	if err != nil {
		return err
	}
	switch {
	case kind == stepRemoveSnapshot:
		e.hit("remove-snapshot.before")
		err := backend.RemoveSnapshot(ctx, c.id)
		e.hit("remove-snapshot.after")
		return err
	case kind == stepFreeze:
		return e.holdMember(ctx, c, s.wish)
	case c.held != nil:
		return e.cutHeld(ctx, c, s.wish, backend)
	}
	return e.cutQuietly(ctx, c, s.wish)
}

// sourceOf locks the snapshot's source, or is errLater.
func (e *Executor) sourceOf(c *cutting, w *fsm.DesiredSnapshot) (*volume, error) {
	v, ok := e.lockSource(w.Source, string(c.id), func() { e.cuts.add(c.id) })
	if !ok {
		return nil, errLater
	}
	return v, nil
}

// cutQuietly is a cut by itself: what must be frozen is frozen for it (S19).
func (e *Executor) cutQuietly(ctx context.Context, c *cutting, w *fsm.DesiredSnapshot) error {
	v, err := e.sourceOf(c, w)
	if err != nil {
		return err
	}
	defer e.unlockSource(v, nil)
	s, backend, err := e.lookAtSource(ctx, v, false)
	if err != nil {
		return err
	}
	if rej := s.refusal(v.id); rej != nil {
		return rej
	}
	if err := e.saveSnapshot(c, snapshotRecord{Phase: cutBegun, Attempt: w.Attempt}); err != nil {
		return err
	}
	done := snapshotRecord{Phase: cutDone, Attempt: w.Attempt}
	if err := e.quietly(ctx, v, s, func(ctx context.Context) error { return e.cutNow(ctx, c, w, backend, &done) }); err != nil {
		return e.failedCut(ctx, c, v, backend, err)
	}
	return e.saveSnapshot(c, done)
}

// cutNow cuts, and notes when.
func (e *Executor) cutNow(ctx context.Context, c *cutting, w *fsm.DesiredSnapshot, backend SnapshotBackend, done *snapshotRecord) error {
	e.hit("cut.before")
	done.Cut = time.Now()
	err := backend.Cut(ctx, w.Source, c.id, e.progress("", c.id, w.Source))
	e.hit("cut.after")
	return err
}

// failedCut undoes a cut that failed. Where a child is left that cannot be killed, the source
// is set aside until it is gone, and what it makes is removed then.
func (e *Executor) failedCut(ctx context.Context, c *cutting, source *volume, backend SnapshotBackend, err error) error {
	if stuckIn(err) == nil {
		return errors.Join(err, e.undoCut(ctx, c, backend))
	}
	e.park(source, err)
	return err
}

// setAside leaves the snapshot alone until a child is gone that works on it and that cannot
// be killed.
func (e *Executor) setAside(c *cutting, err error) {
	stuck := stuckIn(err)
	if stuck == nil {
		return
	}
	if c.stuck != nil {
		stuck = allGone([]<-chan struct{}{c.stuck, stuck})
	}
	c.stuck = stuck
	go func() {
		<-stuck
		e.cuts.add(c.id)
	}()
}

// isStuck: a child that cannot be killed may still make the snapshot, or remove it. It is
// neither cut nor removed, nor told to be gone, before that has ended. A thaw waits for nothing.
func (c *cutting) isStuck(s *cutSituation, kind stepKind) bool {
	select {
	case <-c.stuck:
		c.stuck = nil
	default:
	}
	goes := s.wish != nil && (s.wish.Goal == fsm.SnapshotGoalRemove || s.wish.Goal == fsm.SnapshotGoalThaw)
	return c.stuck != nil && kind != stepThaw && (kind != stepNone || goes)
}

// undoCut removes what a cut left whose freeze did not hold: it was never reported.
func (e *Executor) undoCut(ctx context.Context, c *cutting, backend SnapshotBackend) error {
	have, err := backend.ObserveSnapshot(ctx, c.id)
	if err != nil || have.Absent || !have.Exists && !have.Unfinished {
		return err
	}
	return backend.RemoveSnapshot(ctx, c.id)
}

// holdMember makes a group's member quiet, and leaves it so. The record comes first:
// another process that finds it knows that this attempt was frozen before.
func (e *Executor) holdMember(ctx context.Context, c *cutting, w *fsm.DesiredSnapshot) error {
	v, err := e.sourceOf(c, w)
	if err != nil {
		return err
	}
	h, err := e.holdSource(ctx, c, v, w)
	c.held = h
	e.unlockSource(v, h)
	if err == nil && !h.until.IsZero() {
		e.cuts.addAfter(c.id, time.Until(h.until)+time.Millisecond)
	}
	return err
}

func (e *Executor) holdSource(ctx context.Context, c *cutting, v *volume, w *fsm.DesiredSnapshot) (*hold, error) {
	s, _, err := e.lookAtSource(ctx, v, true)
	if err != nil {
		return nil, err
	}
	if rej := s.refusal(v.id); rej != nil {
		return nil, rej
	}
	if err := e.saveSnapshot(c, snapshotRecord{Phase: cutBegun, Attempt: w.Attempt}); err != nil {
		return nil, err
	}
	h := &hold{volume: v, attempt: w.Attempt}
	if s.mounted == "" {
		return h, nil
	}
	h.until = time.Now().Add(e.FreezeMax)
	if h.freeze, err = e.freeze(ctx, v, s); err != nil {
		return nil, err
	}
	return h, nil
}

// cutHeld cuts a group's member under the freeze that was reported, and no other.
func (e *Executor) cutHeld(ctx context.Context, c *cutting, w *fsm.DesiredSnapshot, backend SnapshotBackend) error {
	h := c.held
	done := snapshotRecord{Phase: cutDone, Attempt: w.Attempt}
	cut := func(ctx context.Context) error { return e.cutNow(ctx, c, w, backend, &done) }
	var err error
	if h.freeze != nil {
		err = cutUnder(ctx, h.freeze, cut)
	} else {
		err = cut(ctx)
	}
	if err != nil {
		return e.failedCut(ctx, c, h.volume, backend, err)
	}
	return e.saveSnapshot(c, done)
}
