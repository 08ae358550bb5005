package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// volume is what the process knows of one volume between two observations.
type volume struct {
	id fsm.VolumeID
	// lock is held by the one call or worker that works on the volume (S121).
	lock chan struct{}

	// Guarded by table.mu.
	reportedFacts
	desired        *fsm.DesiredVolume
	desiredAt      fsm.Epoch
	desiredChanged chan struct{} // closed and replaced when the desired state changes
	call           *call
	requeue        bool                   // to be queued again when the lock is released
	parked         <-chan struct{}        // closed when an unkillable child that has its device is gone
	outboxReport   *outboxReport          // the report of its outbox that is under way
	committed      map[plan.Fact]struct{} // facts of this process's calls that are committed and still hold
	ackedTeardown  uint64                 // the sequence number of the last teardown that the log acknowledged
	health         *fsm.Condition         // as it was measured last
	ackedHealth    *string                // the abnormal message that the log acknowledged from this process
	// snapshotting: the lock is held to take a snapshot of it; freezeHold: it is frozen for a group
	// snapshot. Calls are Busy meanwhile; waiters are called when the volume is free.
	snapshotting       bool
	freezeHold         *freezeHold
	waiters            map[string]func()
	ackedLimits        *fsm.Limits          // acknowledged by the log as in force for the present staging
	limitsReport       uint64               // the number of the last report of limits, or of the last staging
	expandedSize       int64                // bytes of the device when all of it was last in use
	spaceUsage         executor.SpaceUsage  // of the last reclaim
	reclaimAfter       time.Time            // no earlier is an internal reclaim tried again
	checkingHealth     bool                 // its health is being measured
	limitsError        string               // why its limits are not in force although it is staged
	recordCopy         records.VolumeRecord // of the record file's content, for readers without the lock
	stagingChanges     uint64               // how often this process staged or unstaged it
	watchingSuspension bool                 // a goroutine watches its suspended I/O
	replica            replicaState         // of a replicated volume; parts of it are guarded by lock

	// Guarded by lock.
	manifest      keptManifest
	record        *records.RecordFile
	content       executor.Content   // of the active device, as far as it was read
	formatted     bool               // mkfs ended on it, and that is not committed
	crypt         cryptState         // of an encrypted volume
	appliedLimits *fsm.Limits        // in force on the active device; nil: not known
	failures      int                // of the background, in a row
	failedAttempt attempt            // the operator's attempt in which the failures were counted
	lastTried     *fsm.DesiredVolume // the desired state that was last worked on, for reporting its failure
	limitsStep    bool               // the failure is about new limits
	trim          trimProgress
}

// attempt distinguishes the retries that an operator asked for.
type attempt struct {
	operation fsm.OperationID
	number    uint32
}

// volumeEntry finds or makes the entry of a volume. The caller holds table.mu, or is alone.
func (t *table) volumeEntry(id fsm.VolumeID) *volume {
	v, ok := t.volumes[id]
	if !ok {
		v = &volume{id: id, lock: make(chan struct{}, 1), desiredChanged: make(chan struct{}), reportedFacts: newFacts(), committed: map[plan.Fact]struct{}{}}
		t.volumes[id] = v
	}
	return v
}

// tryLock takes the lock if it is free; if not, the volume is queued when it is released.
func (t *table) tryLock(v *volume) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.parked != nil || v.freezeHold != nil {
		return false // queued when the child is gone, or the hold ends
	}
	if t.volumes[v.id] != v {
		return false // its entry was dropped since it was found
	}
	select {
	case v.lock <- struct{}{}:
		return true
	default:
		v.requeue = true
		return false
	}
}

// unlock releases the volume's lock, and queues the volume if that was asked for.
func (t *table) unlock(v *volume) {
	t.mu.Lock()
	defer t.mu.Unlock()
	<-v.lock
	v.wakeWaiters()
	if v.requeue {
		v.requeue = false
		t.volumeQueue.add(v.id)
	}
}

// retryDelay is the backoff after so many failures in a row.
func retryDelay(failures int) time.Duration {
	const first, last = 100 * time.Millisecond, 10 * time.Second
	return min(last, first<<min(failures, 16))
}

// wrapStep adds to an error which step failed on which volume; refusals name the volume themselves.
func wrapStep(v *volume, kind plan.StepKind, err error) error {
	var rej *fsm.Rejection
	if err == nil || errors.As(err, &rej) {
		return err
	}
	return fmt.Errorf("%s volume %s: %w", kind, v.id, err)
}
