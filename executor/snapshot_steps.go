package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// snapshotJob is one work on a snapshot.
type snapshotJob struct {
	*snapshotWorker
	c     *snapshotState
	s     *snapshotView // when the step was chosen
	at    fsm.Epoch
	begun bool // the step was
}

// choose: a child that cannot be killed may still work on the snapshot.
func (j *snapshotJob) choose(ctx context.Context) (s step, err error) {
	if j.s, j.at, err = j.observeSnapshot(ctx, j.c); err != nil {
		return step{}, err
	}
	j.begun, s = false, nextSnapshotStep(j.s)
	if j.c.isParked(j.s, s.kind) {
		return step{}, errRequeued
	}
	return s, nil
}

// authorize: what a wish asks for is recorded as acted on first (S14); a thaw waits for nothing.
func (j *snapshotJob) authorize(s step) error {
	if j.onlyEnds(s.kind) {
		return nil
	}
	return j.acted.persist(j.at, j.s.incarnationID)
}

// onlyEnds tells whether the step needs no wish.
func (j *snapshotJob) onlyEnds(kind stepKind) bool {
	return kind == stepThaw || kind == stepForgetSnapshotRecord || kind == stepRecordMissing
}

func (j *snapshotJob) perform(ctx context.Context, s step) error {
	j.begun = true
	switch s.kind {
	case stepThaw:
		if err := j.freezer.releaseHold(ctx, j.c.freezeHold); err != nil {
			return err
		}
		j.c.freezeHold = nil
		return nil
	case stepForgetSnapshotRecord:
		return j.records.forgetSnapshotRecord(j.c)
	case stepRecordMissing:
		return j.records.saveSnapshotRecord(j.c, snapshotRecord{Phase: phaseMissing})
	}
	return j.performSnapshotStep(ctx, j.c, j.s, s.kind)
}

func (j *snapshotJob) did(step, time.Time, error) {}

func (j *snapshotJob) wrap(kind stepKind, err error) error {
	if !j.begun || j.onlyEnds(kind) {
		return err
	}
	return fmt.Errorf("%s snapshot %s of volume %s: %w", kind, j.c.id, j.s.desired.Source, err)
}

func (j *snapshotJob) restless() error {
	return fmt.Errorf("snapshot %s is not as it should be after %d steps", j.c.id, maxSteps)
}

func (sw *snapshotWorker) performSnapshotStep(ctx context.Context, c *snapshotState, s *snapshotView, kind stepKind) error {
	backend, err := sw.poolSet.snapshotPool(s.desired)
	if err != nil {
		return err
	}
	switch {
	case kind == stepRemoveSnapshot:
		return backend.RemoveSnapshot(ctx, c.id)
	case kind == stepFreeze:
		return sw.freezeMember(ctx, c, s.desired)
	case c.freezeHold != nil:
		return sw.takeUnderHold(ctx, c, s.desired, backend)
	}
	return sw.takeFrozen(ctx, c, s.desired)
}

// lockSnapshotSource locks the snapshot's source, or is errRequeued.
func (sw *snapshotWorker) lockSnapshotSource(c *snapshotState, w *fsm.DesiredSnapshot) (*volume, error) {
	v, ok := sw.lockSource(w.Source, string(c.id), func() { sw.snapshotQueue.add(c.id) })
	if !ok {
		return nil, errRequeued
	}
	return v, nil
}

// takeFrozen is a cut by itself: what must be frozen is frozen for it (S19).
func (sw *snapshotWorker) takeFrozen(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot) error {
	v, err := sw.lockSnapshotSource(c, w)
	if err != nil {
		return err
	}
	defer sw.unlockSource(v, nil)
	s, backend, err := sw.observer.observeSource(ctx, v, false)
	if err != nil {
		return err
	}
	if rej := s.refusal(v.id); rej != nil {
		return rej
	}
	if err := sw.records.saveSnapshotRecord(c, snapshotRecord{Phase: phaseBegun, Attempt: w.Attempt}); err != nil {
		return err
	}
	taken := snapshotRecord{Phase: phaseTaken, Attempt: w.Attempt}
	if err := sw.freezer.runFrozen(ctx, v, s, func(ctx context.Context) error { return sw.takeNow(ctx, c, w, backend, &taken) }); err != nil {
		return sw.undoFailedTake(ctx, c, v, backend, err)
	}
	return sw.records.saveSnapshotRecord(c, taken)
}

// takeNow cuts, and notes when.
func (sw *snapshotWorker) takeNow(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot, backend SnapshotBackend, taken *snapshotRecord) error {
	sw.hitFaultPoint("cut.before")
	taken.TakenAt = time.Now()
	err := backend.TakeSnapshot(ctx, w.Source, c.id, sw.reports.progress("", c.id, w.Source))
	sw.hitFaultPoint("cut.after")
	return err
}

// undoFailedTake undoes a cut that failed. Where a child is left that cannot be killed, the source
// is set aside until it is gone, and what it makes is removed then.
func (sw *snapshotWorker) undoFailedTake(ctx context.Context, c *snapshotState, source *volume, backend SnapshotBackend, err error) error {
	if unkillableDone(err) == nil {
		return errors.Join(err, sw.removeTaken(ctx, c, backend))
	}
	sw.parkVolume(source, err)
	return err
}

// parkSnapshot leaves the snapshot alone until a child is gone that works on it and that cannot
// be killed.
func (sw *snapshotWorker) parkSnapshot(c *snapshotState, err error) {
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
		sw.snapshotQueue.add(c.id)
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
func (sw *snapshotWorker) removeTaken(ctx context.Context, c *snapshotState, backend SnapshotBackend) error {
	have, err := backend.ObserveSnapshot(ctx, c.id)
	if err != nil || have.Absent || !have.Exists && !have.Unfinished {
		return err
	}
	return backend.RemoveSnapshot(ctx, c.id)
}

// freezeMember makes a group's member quiet, and leaves it so. The record comes first:
// another process that finds it knows that this attempt was frozen before.
func (sw *snapshotWorker) freezeMember(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot) error {
	v, err := sw.lockSnapshotSource(c, w)
	if err != nil {
		return err
	}
	h, err := sw.holdSource(ctx, c, v, w)
	c.freezeHold = h
	sw.unlockSource(v, h)
	if err == nil && !h.until.IsZero() {
		sw.snapshotQueue.addAfter(c.id, time.Until(h.until)+time.Millisecond)
	}
	return err
}

func (sw *snapshotWorker) holdSource(ctx context.Context, c *snapshotState, v *volume, w *fsm.DesiredSnapshot) (*freezeHold, error) {
	s, _, err := sw.observer.observeSource(ctx, v, true)
	if err != nil {
		return nil, err
	}
	if rej := s.refusal(v.id); rej != nil {
		return nil, rej
	}
	if err := sw.records.saveSnapshotRecord(c, snapshotRecord{Phase: phaseBegun, Attempt: w.Attempt}); err != nil {
		return nil, err
	}
	h := &freezeHold{freezeState: freezeState{attempt: w.Attempt}, volume: v}
	if s.mountPath == "" {
		return h, nil
	}
	h.until = time.Now().Add(sw.MaxFreeze)
	if h.freeze, err = sw.freezer.freeze(ctx, v, s); err != nil {
		return nil, err
	}
	return h, nil
}

// takeUnderHold cuts a group's member under the freeze that was reported, and no other.
func (sw *snapshotWorker) takeUnderHold(ctx context.Context, c *snapshotState, w *fsm.DesiredSnapshot, backend SnapshotBackend) error {
	h := c.freezeHold
	taken := snapshotRecord{Phase: phaseTaken, Attempt: w.Attempt}
	take := func(ctx context.Context) error { return sw.takeNow(ctx, c, w, backend, &taken) }
	var err error
	if h.freeze != nil {
		err = runUnderFreeze(ctx, h.freeze, take)
	} else {
		err = take(ctx)
	}
	if err != nil {
		return sw.undoFailedTake(ctx, c, h.volume, backend, err)
	}
	return sw.records.saveSnapshotRecord(c, taken)
}
