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

// volume is what the executor knows of one volume between two looks at the host.
type volume struct {
	id fsm.VolumeID
	// lock is held by whoever works on the volume, a call or the background (S121).
	lock chan struct{}

	// Guarded by table.mu.
	reportedFacts
	desired        *fsm.DesiredVolume
	desiredAt      fsm.Epoch
	desiredChanged chan struct{} // closed and replaced when the wish changes
	call           *call
	requeue        bool                   // somebody found it locked and wants it looked at
	parked         <-chan struct{}        // a child that cannot be killed has its device
	outboxReport   *outboxReport          // the report of its outbox that is under way
	committed      map[plan.Fact]struct{} // facts that the log took from calls of this process and that hold since
	ackedTeardown  uint64                 // the last record of a tear-down that the log took
	health         *fsm.Condition         // as it was measured last
	ackedHealth    *string                // what is wrong with it as the log knows from this process
	// cut: it is being cut by whoever has the lock; held: it is quiet for a group.
	// Calls are Busy meanwhile; waiters are called when the volume is free.
	snapshotting       bool
	freezeHold         *freezeHold
	waiters            map[string]func()
	ackedLimits        *fsm.Limits          // that the log took for those in force
	expandedSize       int64                // bytes that the device had when all of it was last made use of
	checkingHealth     bool                 // somebody measures its health
	limitsError        string               // why its limits are not in force although it is staged
	recordCopy         records.VolumeRecord // a copy of the journal's record, for readers
	stagingChanges     uint64               // how often it was staged or unstaged by that
	watchingSuspension bool                 // somebody looks after its frozen I/O
	replica            replicaState         // of a replicated volume; parts of it are guarded by lock

	// Guarded by lock.
	record        *records.RecordFile
	content       executor.Content   // of the attached device, as far as it was read
	formatted     bool               // mkfs ended on it and the log has not heard
	appliedLimits *fsm.Limits        // in force on the attached device; nil: not known
	failures      int                // of the background in a row
	failedAttempt attempt            // which of the operator's attempts they belong to
	lastTried     *fsm.DesiredVolume // what was looked at last, for whoever says why that failed
	limitsStep    bool               // and that it was new limits
}

// attempt tells apart what an operator asked to be tried again.
type attempt struct {
	operation fsm.OperationID
	number    uint32
}

// volume finds or makes the entry of a volume. The caller holds mu, or is alone.
func (t *table) volumeEntry(id fsm.VolumeID) *volume {
	v, ok := t.volumes[id]
	if !ok {
		v = &volume{id: id, lock: make(chan struct{}, 1), desiredChanged: make(chan struct{}), reportedFacts: newFacts(), committed: map[plan.Fact]struct{}{}}
		t.volumes[id] = v
	}
	return v
}

// tryLock takes the lock if it is free; else whoever holds it queues the volume again.
func (t *table) tryLock(v *volume) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v.parked != nil || v.freezeHold != nil {
		return false // queued again when the child is gone, or the hold
	}
	if t.volumes[v.id] != v {
		return false // it was dropped since it was found
	}
	select {
	case v.lock <- struct{}{}:
		return true
	default:
		v.requeue = true
		return false
	}
}

// unlock frees the volume for the next.
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

// retryDelay says how long to wait before what failed so often is looked at again.
func retryDelay(failures int) time.Duration {
	const first, last = 100 * time.Millisecond, 10 * time.Second
	return min(last, first<<min(failures, 16))
}

// wrap says what was being done to which volume; refusals say it themselves.
func wrapStep(v *volume, kind plan.StepKind, err error) error {
	var rej *fsm.Rejection
	if err == nil || errors.As(err, &rej) {
		return err
	}
	return fmt.Errorf("%s volume %s: %w", kind, v.id, err)
}
