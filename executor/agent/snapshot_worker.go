package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// dropUnlistedSnapshots drops the desired state of snapshots that a full update does not list.
// The caller holds table.mu.
func (in *sessionIntake) dropUnlistedSnapshots(u *executor.Update) {
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

// setDesiredSnapshot notes the desired state of a snapshot, nil for none. The caller holds table.mu.
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

// run reconciles queued snapshots, one after the other.
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

// releaseSnapshot frees the snapshot for other workers, and drops its entry when it has neither
// desired state nor a record.
func (sw *snapshotWorker) releaseSnapshot(c *snapshotState) {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	c.busy = false
	switch {
	case c.requeue:
		c.requeue = false
		sw.snapshotQueue.add(c.id)
	case sw.session.number != 0 && c.desired == nil && c.freezeHold == nil && c.parked == nil && c.file != nil && c.record.Phase == records.PhaseNone && len(c.inFlight) == 0:
		delete(sw.snapshots, c.id)
	}
}

// reconcileSnapshot brings the snapshot to its desired state once. A failure is retried later,
// and reported where an operation waits for the snapshot.
func (sw *snapshotWorker) reconcileSnapshot(c *snapshotState) {
	sw.mu.Lock()
	c.lastTried = c.desired
	sw.mu.Unlock()
	sw.runReconciliation(reconciliation{
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
