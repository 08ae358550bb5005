package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// snapshotState is what the executor knows of one snapshot between two looks at the host.
type snapshotState struct {
	id fsm.SnapshotID

	// Guarded by Executor.mu.
	reportedFacts
	desired         *fsm.DesiredSnapshot
	desiredAt       fsm.Epoch
	busy            bool // a worker has it
	requeue         bool // it is to be looked at when he is done
	awaitingSession bool // it is to be looked at when the session got on

	// Of the worker that has it.
	file          *slotFile
	record        snapshotRecord
	freezeHold    *freezeHold
	parked        <-chan struct{} // a child that cannot be killed works on it; nil: none
	failures      int
	failedAttempt attempt              // which of the operator's attempts they belong to
	lastTried     *fsm.DesiredSnapshot // what was looked at last, for whoever says why that failed
}

// snapshot finds or makes the entry of a snapshot. The caller holds mu, or is alone.
func (t *table) snapshotEntry(id fsm.SnapshotID) *snapshotState {
	c, ok := t.snapshots[id]
	if !ok {
		c = &snapshotState{id: id, reportedFacts: newFacts()}
		t.snapshots[id] = c
	}
	return c
}

// dropUnlistedSnapshots drops the wishes for snapshots that a full update does not list. The
// caller holds mu.
func (in *sessionIntake) dropUnlistedSnapshots(u *Update) {
	listed := map[fsm.SnapshotID]bool{}
	for i := range u.Snapshots {
		listed[u.Snapshots[i].Snapshot] = true
	}
	for id := range in.snapshots {
		if !listed[id] {
			in.setDesiredSnapshot(id, nil, u.At)
		}
	}
}

// setDesiredSnapshot notes what the log wants of a snapshot, nil when it wants nothing.
// The caller holds mu.
func (in *sessionIntake) setDesiredSnapshot(id fsm.SnapshotID, w *fsm.DesiredSnapshot, at fsm.Epoch) {
	c, known := in.snapshots[id]
	if !known {
		if w == nil || !id.Valid() {
			return
		}
		c = in.snapshotEntry(id)
	}
	c.desired, c.desiredAt = w, at
	c.dropShown(at)
	in.snapshotQueue.add(id)
}

// run looks at one queued snapshot after the other.
func (sw *snapshotWorker) run() {
	work(sw.snapshotQueue, sw.claimSnapshot, sw.reconcileSnapshot, sw.releaseSnapshot)
}

func (sw *snapshotWorker) claimSnapshot(id fsm.SnapshotID) *snapshotState {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	c := sw.snapshots[id]
	if c == nil {
		return nil
	}
	if c.busy {
		c.requeue = true
		return nil
	}
	c.busy = true
	return c
}

// releaseSnapshot lets others have it, and drops what the log does not know and of
// which nothing is left.
func (sw *snapshotWorker) releaseSnapshot(c *snapshotState) {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	c.busy = false
	switch {
	case c.requeue:
		c.requeue = false
		sw.snapshotQueue.add(c.id)
	case sw.session.number != 0 && c.desired == nil && c.freezeHold == nil && c.parked == nil && c.file != nil && c.record.Phase == phaseNone && len(c.inFlight) == 0:
		delete(sw.snapshots, c.id)
	}
}

// reconcileSnapshot looks at the snapshot once; a failure is tried again later, and
// told where an operation waits for it.
func (sw *snapshotWorker) reconcileSnapshot(c *snapshotState) {
	sw.mu.Lock()
	c.lastTried = c.desired
	sw.mu.Unlock()
	sw.look(looked{
		open:     func() error { return sw.records.openSnapshotRecord(c) },
		converge: func(ctx context.Context) error { return sw.driveSnapshot(ctx, c) },
		done:     func() { c.failures = 0 },
		failed: func(err error) {
			sw.parkSnapshot(c, err)
			sw.snapshotReports.reportSnapshotFailure(c, err)
			c.failures++
			sw.snapshotQueue.addAfter(c.id, retryDelay(c.failures))
		},
	})
}

// driveSnapshot does step after step until nextSnapshotStep has none, then tells what is new.
func (sw *snapshotWorker) driveSnapshot(ctx context.Context, c *snapshotState) error {
	j := &snapshotJob{snapshotWorker: sw, c: c}
	if err := sw.drive(ctx, j); err != nil {
		return err
	}
	sw.snapshotReports.reportSnapshot(c, j.s)
	return nil
}

// observeSnapshot observes. Nothing is known of a snapshot without a wish but what the
// record says, which is all that has to go.
func (sw *snapshotWorker) observeSnapshot(ctx context.Context, c *snapshotState) (*snapshotView, fsm.Epoch, error) {
	sw.mu.Lock()
	s := &snapshotView{desired: c.desired, record: c.record, freezeHold: c.freezeHold.known(), now: time.Now(), incarnationID: sw.session.incarnationID}
	at := sw.session.at
	s.actionable = sw.session.number != 0 && sw.session.adopted && at.Compare(sw.acted.onDisk()) >= 0
	c.awaitingSession = !s.actionable
	sw.mu.Unlock()
	c.lastTried = s.desired
	if s.desired == nil {
		return s, at, nil
	}
	if now := (attempt{s.desired.Operation, s.desired.Retry}); now != c.failedAttempt {
		c.failedAttempt, c.failures = now, 0
	}
	backend, err := sw.poolSet.snapshotPool(s.desired)
	if err != nil {
		return nil, at, err
	}
	if s.have, err = backend.ObserveSnapshot(ctx, c.id); err != nil {
		return nil, at, fmt.Errorf("look at snapshot %s: %w", c.id, err)
	}
	return s, at, nil
}

// snapshotPool is that of the snapshot's pool.
func (p *poolSet) snapshotPool(w *fsm.DesiredSnapshot) (SnapshotBackend, error) {
	b, ok := p.pools[w.Pool]
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "snapshot %s is in pool %q, which this host does not have", w.Snapshot, w.Pool)
	}
	rb, err := p.replicatedSource(w, b)
	if err != nil {
		return nil, err
	}
	if rb != nil {
		return rb, nil
	}
	backend, ok := b.(SnapshotBackend)
	if !ok {
		return nil, fsm.Reject(fsm.Precondition, "pool %s cannot cut snapshots", w.Pool)
	}
	return backend, nil
}
