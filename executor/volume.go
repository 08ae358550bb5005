package executor

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// volume is what the executor knows of one volume between two looks at the host.
type volume struct {
	id fsm.VolumeID
	// lock is held by whoever works on the volume, a call or the background (S121).
	lock chan struct{}

	// Guarded by Executor.mu.
	reportedFacts
	desired        *fsm.DesiredVolume
	desiredAt      fsm.Epoch
	desiredChanged chan struct{} // closed and replaced when the wish changes
	call           *call
	requeue        bool              // somebody found it locked and wants it looked at
	parked         <-chan struct{}   // a child that cannot be killed has its device
	outboxReport   *outboxReport     // the report of its outbox that is under way
	committed      map[fact]struct{} // facts that the log took from calls of this process and that hold since
	ackedTeardown  uint64            // the last record of a tear-down that the log took
	health         *fsm.Condition    // as it was measured last
	ackedHealth    *string           // what is wrong with it as the log knows from this process
	// cut: it is being cut by whoever has the lock; held: it is quiet for a group.
	// Calls are Busy meanwhile; waiters are called when the volume is free.
	snapshotting       bool
	freezeHold         *freezeHold
	waiters            map[string]func()
	ackedLimits        *fsm.Limits  // that the log took for those in force
	expandedSize       int64        // bytes that the device had when all of it was last made use of
	checkingHealth     bool         // somebody measures its health
	limitsError        string       // why its limits are not in force although it is staged
	recordCopy         volumeRecord // a copy of the journal's record, for readers
	stagingChanges     uint64       // how often it was staged or unstaged by that
	watchingSuspension bool         // somebody looks after its frozen I/O
	replica            replicaState // of a replicated volume; parts of it are guarded by lock

	// Guarded by lock.
	record        *recordFile
	content       Content            // of the attached device, as far as it was read
	formatted     bool               // mkfs ended on it and the log has not heard
	appliedLimits *fsm.Limits        // in force on the attached device; nil: not known
	failures      int                // isOfAttempt the background in a row
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
		v = &volume{id: id, lock: make(chan struct{}, 1), desiredChanged: make(chan struct{}), reportedFacts: newFacts(), committed: map[fact]struct{}{}}
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

// open reads the volume's record, once. The caller holds the lock.
func (rc *recorder) openRecord(v *volume) error {
	if v.record == nil {
		j, err := openRecordFile(rc.Host.Dir(), v.id)
		if err != nil {
			return err
		}
		v.record = j
	}
	return rc.pruneOutbox(v)
}

// pruneOutbox drops what the log has taken from the outbox. It need not be synced: what
// is said again is passed over (S16).
func (rc *recorder) pruneOutbox(v *volume) error {
	rc.mu.Lock()
	acked := v.ackedTeardown
	rc.mu.Unlock()
	var left []pendingTeardown
	for _, o := range v.record.PendingTeardowns {
		if o.Sequence > acked {
			left = append(left, o)
		}
	}
	if len(left) == len(v.record.PendingTeardowns) {
		return nil
	}
	v.record.PendingTeardowns = left
	return rc.saveRecord(v, false)
}

// save writes the volume's record.
func (rc *recorder) saveRecord(v *volume, sync bool) error {
	rc.hitFaultPoint("save-record.before")
	err := v.record.save(sync)
	rc.hitFaultPoint("save-record.after")
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.refreshRecordCopy(v)
	return err
}

// parkVolume sets the volume aside until a child that cannot be killed is gone: its
// device must not be touched meanwhile.
func (t *table) parkVolume(v *volume, err error) {
	parked := unkillableDone(err)
	if parked == nil {
		return
	}
	t.mu.Lock()
	v.parked = parked
	t.mu.Unlock()
	t.Logger.Error("the volume is set aside until a stuck command ends", "volume", v.id, "error", err)
	go func() {
		<-parked
		t.mu.Lock()
		defer t.mu.Unlock()
		v.parked = nil
		v.wakeWaiters()
		t.volumeQueue.add(v.id)
	}()
}

// unkillableDone is closed when the children are gone that an error tells of and that cannot be
// killed; nil when it tells of none.
func unkillableDone(err error) <-chan struct{} { return allClosed(unkillableChildren(err)) }

// unkillableChildren looks at all that was joined: errors.As would stop at a child that is gone.
func unkillableChildren(err error) (children []<-chan struct{}) {
	if c, ok := any(err).(interface{ Stuck() <-chan struct{} }); ok && c.Stuck() != nil {
		children = append(children, c.Stuck())
	}
	switch wrapping := any(err).(type) {
	case interface{ Unwrap() error }:
		children = append(children, unkillableChildren(wrapping.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, part := range wrapping.Unwrap() {
			children = append(children, unkillableChildren(part)...)
		}
	}
	return children
}

// allClosed is closed when all of them are; nil for none.
func allClosed(children []<-chan struct{}) <-chan struct{} {
	switch len(children) {
	case 0:
		return nil
	case 1:
		return children[0]
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for _, child := range children {
			<-child
		}
	}()
	return gone
}

// backend is that of the volume's pool.
func (p *poolSet) backend(v *volume) (Backend, error) {
	p.mu.Lock()
	id := v.recordCopy.Pool
	if v.desired != nil && v.desired.Pool != "" {
		id = v.desired.Pool
	}
	p.mu.Unlock()
	if b, ok := p.pools[id]; ok {
		return p.backendOn(v, b)
	}
	if id == "" && len(p.Pools) == 1 {
		return p.backendOn(v, p.Pools[0])
	}
	return nil, fsm.Reject(fsm.Precondition, "volume %s is in pool %q, which this host does not have", v.id, id)
}

// retryDelay says how long to wait before what failed so often is looked at again.
func retryDelay(failures int) time.Duration {
	const first, last = 100 * time.Millisecond, 10 * time.Second
	return min(last, first<<min(failures, 16))
}

func (en *env) logger(v *volume) *slog.Logger { return en.Logger.With("volume", v.id) }

// wrap says what was being done to which volume; refusals say it themselves.
func wrapStep(v *volume, kind stepKind, err error) error {
	var rej *fsm.Rejection
	if err == nil || errors.As(err, &rej) {
		return err
	}
	return fmt.Errorf("%s volume %s: %w", kind, v.id, err)
}
