package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// run reconciles queued volumes, one after the other.
func (w *volumeWorker) run() {
	work(w.volumeQueue, w.take, w.reconcile, w.unlock)
}

// take locks a volume; nil when it is locked.
func (w *volumeWorker) take(id fsm.VolumeID) *volume {
	w.mu.Lock()
	v := w.volumes[id]
	w.mu.Unlock()
	if v != nil && w.tryLock(v) {
		return v
	}
	return nil
}

// reconcile brings the volume to its desired state once. A failure is retried later, and reported
// where an operation waits for the volume. The caller holds the volume's lock.
func (w *volumeWorker) reconcile(v *volume) {
	w.resetBackoff(v)
	w.runReconciliation(reconciliation{
		open:     func() error { return w.records.openRecord(v) },
		converge: func(ctx context.Context) error { return w.converge(ctx, v) },
		done: func() {
			v.failures = 0
			w.forgetVolume(v)
		},
		failed: func(err error) {
			w.parkVolume(v, err)
			w.volumeReports.reportFailure(v, err)
			v.failures++
			w.volumeQueue.addAfter(v.id, retryDelay(v.failures))
		},
	})
}

// resetBackoff starts counting failures anew when an operator asked for a retry.
func (w *volumeWorker) resetBackoff(v *volume) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v.limitsStep = false
	if v.desired == nil {
		return
	}
	v.lastTried = v.desired
	if now := (attempt{v.desired.Operation, v.desired.Attempt}); now != v.failedAttempt {
		v.failedAttempt, v.failures = now, 0
	}
}

// maxConvergeRounds bounds how often one reconciliation observes and acts.
const maxConvergeRounds = 4

// converge brings the volume to its desired state without a call, and reports what the log does
// not have of it.
func (w *volumeWorker) converge(ctx context.Context, v *volume) error {
	if err := w.removeStaleBackup(ctx, v); err != nil {
		w.logger(v).Warn("a copy of the header that an older key opens is still there", "error", err)
		defer w.volumeQueue.addAfter(v.id, retryDelay(v.failures))
	}
	w.keepManifest(v)
	for range maxConvergeRounds {
		replicaErr := w.replicaWorker.driveReplica(ctx, v) // its error must not keep the rest from being reported
		view, at, err := w.observer.view(ctx, v)
		if err != nil {
			return errors.Join(err, replicaErr)
		}
		if unkillableDone(replicaErr) != nil { // an unkillable child has the device
			return errors.Join(replicaErr, w.replicaReports.reportReplica(ctx, v, view))
		}
		want := plan.BackgroundSpec(view)
		acted, err := w.runBackground(ctx, v, &want, at, view.IncarnationID)
		if err != nil {
			return errors.Join(err, w.replicaReports.reportReplica(ctx, v, view), replicaErr)
		}
		if !acted {
			w.space.beginReclaim(v, view)
			return errors.Join(w.reportConverged(ctx, v, view), replicaErr)
		}
	}
	return fmt.Errorf("volume %s has not converged after %d rounds", v.id, maxConvergeRounds)
}

// reportConverged reports what the log does not have of a volume with nothing left to do.
func (w *volumeWorker) reportConverged(ctx context.Context, v *volume, view *plan.VolumeView) error {
	if teardowns := w.outbox.unackedTeardowns(v, plan.MissedTeardowns(view)); len(teardowns) > 0 {
		if err := w.outbox.queueTeardowns(v, teardowns...); err != nil {
			return err
		}
	}
	if err := errors.Join(w.replicaReports.reportReplica(ctx, v, view), w.volumeReports.reportChanges(v, view)); err != nil {
		return err
	}
	return w.volumeReports.reportHealth(v)
}

// runBackground does what plan.BackgroundSpec found; it returns whether there was anything to do.
func (w *volumeWorker) runBackground(ctx context.Context, v *volume, want *plan.VolumeSpec, at fsm.Epoch, incarnationID []byte) (bool, error) {
	j := &job{volumeWorker: w, v: v, want: want, at: at, incarnationID: incarnationID}
	switch {
	case want.TakeDown, want.Goal == fsm.GoalRemove && v.record.Staging != nil:
		return true, j.takeDown(ctx)
	case len(want.DropTargets) > 0:
		return true, j.dropTargets(ctx)
	}
	err := j.drive(ctx)
	return j.steps > 0, err
}

// forgetVolume drops the entry of a volume that has no desired state and of which nothing is up.
func (w *volumeWorker) forgetVolume(v *volume) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session.number == 0 || v.desired != nil || v.call != nil || v.outboxReport != nil || len(v.inFlight) > 0 || !v.record.Empty() {
		return
	}
	if err := v.record.Remove(); err != nil {
		w.Logger.Warn("cannot remove the volume's record", "volume", v.id, "error", err)
	}
	delete(w.volumes, v.id)
}
