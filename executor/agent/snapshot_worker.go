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
	for _, id := range sortedKeys(in.snapshots) {
		if !listed[id] {
			in.setDesiredSnapshot(id, nil, u.At)
		}
	}
}

// setDesiredSnapshot notes the desired state of a snapshot, nil for none. The caller holds table.mu.
func (in *sessionIntake) setDesiredSnapshot(id fsm.SnapshotID, d *fsm.DesiredSnapshot, at fsm.Epoch) {
	snap, known := in.snapshots[id]
	if !known {
		if d == nil || !id.Valid() {
			return
		}
		snap = in.snapshotEntry(id)
	}
	snap.desired, snap.desiredAt = d, at
	snap.dropShown(at)
	in.snapshotQueue.add(id)
}

// run reconciles queued snapshots, one after the other.
func (sw *snapshotWorker) run() {
	work(sw.snapshotQueue, sw.claimSnapshot, sw.reconcileSnapshot, sw.releaseSnapshot)
}

func (sw *snapshotWorker) claimSnapshot(id fsm.SnapshotID) *snapshotState {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	snap := sw.snapshots[id]
	if snap == nil {
		return nil
	}
	if snap.busy {
		snap.requeue = true
		return nil
	}
	snap.busy = true
	return snap
}

// releaseSnapshot frees the snapshot for other workers, and drops its entry when it has neither
// desired state nor a record.
func (sw *snapshotWorker) releaseSnapshot(snap *snapshotState) {
	sw.mu.Lock()
	defer sw.mu.Unlock()
	snap.busy = false
	switch {
	case snap.requeue:
		snap.requeue = false
		sw.snapshotQueue.add(snap.id)
	case sw.session.number != 0 && snap.desired == nil && snap.freezeHold == nil && snap.parked == nil && snap.file != nil && snap.record.Phase == records.PhaseNone && len(snap.inFlight) == 0:
		delete(sw.snapshots, snap.id)
	}
}

// reconcileSnapshot brings the snapshot to its desired state once. A failure is retried later,
// and reported where an operation waits for the snapshot.
func (sw *snapshotWorker) reconcileSnapshot(snap *snapshotState) {
	sw.mu.Lock()
	snap.lastTried = snap.desired
	sw.mu.Unlock()
	sw.runReconciliation(reconciliation{
		open:     func() error { return sw.records.openSnapshotRecord(snap) },
		converge: func(ctx context.Context) error { return sw.driveSnapshot(ctx, snap) },
		done:     func() { snap.failures = 0 },
		failed: func(err error) {
			sw.parkSnapshot(snap, err)
			sw.snapshotReports.reportSnapshotFailure(snap, err)
			snap.failures++
			sw.snapshotQueue.addAfter(snap.id, retryDelay(snap.failures))
		},
	})
}
