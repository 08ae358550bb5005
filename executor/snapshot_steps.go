package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// doSnapshotStep does one step, and measures it. What a wish asks for is recorded as acted
// on first (S14); a thaw waits for nothing. Freezes and cuts have their fault points
// where they happen.
func (e *Executor) doSnapshotStep(ctx context.Context, c *snapshotState, s *snapshotView, kind stepKind, at fsm.Epoch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch kind {
	case stepThaw:
		e.hitFaultPoint("thaw.before")
		err := e.releaseHold(ctx, c.freezeHold)
		e.hitFaultPoint("thaw.after")
		if err == nil {
			c.freezeHold = nil
		}
		return err
	case stepForgetSnapshotRecord, stepRecordMissing:
		return e.doRecordStep(c, kind)
	}
	if err := e.acted.persist(at, s.incarnationID); err != nil {
		return err
	}
	began := time.Now()
	err := e.performSnapshotStep(ctx, c, s, kind)
	if kind != stepFreeze && !errors.Is(err, errRequeued) {
		e.metrics.observeStep(kind, began, err)
	}
	if err != nil {
		return fmt.Errorf("%s snapshot %s of volume %s: %w", kind, c.id, s.desired.Source, err)
	}
	return nil
}

func (e *Executor) doRecordStep(c *snapshotState, kind stepKind) error {
	if kind == stepRecordMissing {
		return e.saveSnapshotRecord(c, snapshotRecord{Phase: phaseMissing})
	}
	e.hitFaultPoint(string(stepForgetSnapshotRecord) + ".before")
	err := e.forgetSnapshotRecord(c)
	e.hitFaultPoint(string(stepForgetSnapshotRecord) + ".after")
	return err
}

func (e *Executor) performSnapshotStep(ctx context.Context, c *snapshotState, s *snapshotView, kind stepKind) error {
	backend, err := e.snapshotPool(s.desired)
	if err != nil {
		return err
	}
	switch {
	case kind == stepRemoveSnapshot:
		e.hitFaultPoint("remove-snapshot.before")
		err := backend.RemoveSnapshot(ctx, c.id)
		e.hitFaultPoint("remove-snapshot.after")
		return err
	case kind == stepFreeze:
		return e.freezeMember(ctx, c, s.desired)
	case c.freezeHold != nil:
		return e.takeUnderHold(ctx, c, s.desired, backend)
	}
	return e.takeFrozen(ctx, c, s.desired)
}

// lockSnapshotSource locks the snapshot's source, or is errRequeued.
func (e *Executor) lockSnapshotSource(c *snapshotState, w *fsm.DesiredSnapshot) (*volume, error) {
	v, ok := e.lockSource(w.Source, string(c.id), func() { e.snapshotQueue.add(c.id) })
	if !ok {
		return nil, errRequeued
	}
	return v, nil
}

// takeFrozen is a cut by itself: what must be frozen is frozen for it (S19).
func (e *Executor) takeFrozen(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot) error {
	v, err := e.lockSnapshotSource(c, w)
	if err != nil {
		return err
	}
	defer e.unlockSource(v, nil)
	s, backend, err := e.observeSource(ctx, v, false)
	if err != nil {
		return err
	}
	if rej := s.refusal(v.id); rej != nil {
		return rej
	}
	if err := e.saveSnapshotRecord(c, snapshotRecord{Phase: phaseBegun, Attempt: w.Attempt}); err != nil {
		return err
	}
	taken := snapshotRecord{Phase: phaseTaken, Attempt: w.Attempt}
	if err := e.runFrozen(ctx, v, s, func(ctx context.Context) error { return e.takeNow(ctx, c, w, backend, &taken) }); err != nil {
		return e.undoFailedTake(ctx, c, v, backend, err)
	}
	return e.saveSnapshotRecord(c, taken)
}

// takeNow cuts, and notes when.
func (e *Executor) takeNow(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot, backend SnapshotBackend, taken *snapshotRecord) error {
	e.hitFaultPoint("cut.before")
	taken.TakenAt = time.Now()
	err := backend.TakeSnapshot(ctx, w.Source, c.id, e.progress("", c.id, w.Source))
	e.hitFaultPoint("cut.after")
	return err
}

// undoFailedTake undoes a cut that failed. Where a child is left that cannot be killed, the source
// is set aside until it is gone, and what it makes is removed then.
func (e *Executor) undoFailedTake(ctx context.Context, c *snapshotState, source *volume, backend SnapshotBackend, err error) error {
	if unkillableDone(err) == nil {
		return errors.Join(err, e.removeTaken(ctx, c, backend))
	}
	e.parkVolume(source, err)
	return err
}

// parkSnapshot leaves the snapshot alone until a child is gone that works on it and that cannot
// be killed.
func (e *Executor) parkSnapshot(c *snapshotState, err error) {
	parked := unkillableDone(err)
	if parked == nil {
		return
	}
	if c.parked != nil {
		parked = allClosed([]<-chan struct{}{c.parked, parked})
	}
	c.parked = parked
	go func() {
		<-parked
		e.snapshotQueue.add(c.id)
	}()
}

// isParked: a child that cannot be killed may still make the snapshot, or remove it. It is
// neither cut nor removed, nor told to be gone, before that has ended. A thaw waits for nothing.
func (c *snapshotState) isParked(s *snapshotView, kind stepKind) bool {
	select {
	case <-c.parked:
		c.parked = nil
	default:
	}
	goes := s.desired != nil && (s.desired.Goal == fsm.SnapshotGoalRemove || s.desired.Goal == fsm.SnapshotGoalThaw)
	return c.parked != nil && kind != stepThaw && (kind != stepNone || goes)
}

// removeTaken removes what a cut left whose freeze did not hold: it was never reported.
func (e *Executor) removeTaken(ctx context.Context, c *snapshotState, backend SnapshotBackend) error {
	have, err := backend.ObserveSnapshot(ctx, c.id)
	if err != nil || have.Absent || !have.Exists && !have.Unfinished {
		return err
	}
	return backend.RemoveSnapshot(ctx, c.id)
}

// freezeMember makes a group's member quiet, and leaves it so. The record comes first:
// another process that finds it knows that this attempt was frozen before.
func (e *Executor) freezeMember(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot) error {
	v, err := e.lockSnapshotSource(c, w)
	if err != nil {
		return err
	}
	h, err := e.holdSource(ctx, c, v, w)
	c.freezeHold = h
	e.unlockSource(v, h)
	if err == nil && !h.until.IsZero() {
		e.snapshotQueue.addAfter(c.id, time.Until(h.until)+time.Millisecond)
	}
	return err
}

func (e *Executor) holdSource(ctx context.Context, c *snapshotState, v *volume, w *fsm.DesiredSnapshot) (*freezeHold, error) {
	s, _, err := e.observeSource(ctx, v, true)
	if err != nil {
		return nil, err
	}
	if rej := s.refusal(v.id); rej != nil {
		return nil, rej
	}
	if err := e.saveSnapshotRecord(c, snapshotRecord{Phase: phaseBegun, Attempt: w.Attempt}); err != nil {
		return nil, err
	}
	h := &freezeHold{freezeState: freezeState{attempt: w.Attempt}, volume: v}
	if s.mountPath == "" {
		return h, nil
	}
	h.until = time.Now().Add(e.MaxFreeze)
	if h.freeze, err = e.freeze(ctx, v, s); err != nil {
		return nil, err
	}
	return h, nil
}

// takeUnderHold cuts a group's member under the freeze that was reported, and no other.
func (e *Executor) takeUnderHold(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot, backend SnapshotBackend) error {
	h := c.freezeHold
	taken := snapshotRecord{Phase: phaseTaken, Attempt: w.Attempt}
	take := func(ctx context.Context) error { return e.takeNow(ctx, c, w, backend, &taken) }
	var err error
	if h.freeze != nil {
		err = runUnderFreeze(ctx, h.freeze, take)
	} else {
		err = take(ctx)
	}
	if err != nil {
		return e.undoFailedTake(ctx, c, h.volume, backend, err)
	}
	return e.saveSnapshotRecord(c, taken)
}
