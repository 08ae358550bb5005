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
	wish        *fsm.DesiredVolume
	wishAt      fsm.Epoch
	news        chan struct{} // closed and replaced when the wish changes
	call        *call
	again       bool              // somebody found it locked and wants it looked at
	parked      <-chan struct{}   // a child that cannot be killed has its device
	flying      map[fact]struct{} // reports under way
	delivery    *delivery         // the report of its outbox that is under way
	told        map[fact]telling  // reports made, until a wish shows them
	known       map[fact]struct{} // facts that the log took from calls of this process and that hold since
	unsaid      bool              // a fact was not reported again, as it was under way
	heard       uint64            // the last record of a tear-down that the log took
	health      *fsm.Condition    // as it was measured last
	heardHealth *string           // what is wrong with it as the log knows from this process
	// cut: it is being cut by whoever has the lock; held: it is quiet for a group.
	// Calls are Busy meanwhile; waiters are called when the volume is free.
	cut       bool
	held      *hold
	waiters   map[string]func()
	limits    *fsm.Limits // that the log took for those in force
	expanded  int64       // bytes that the device had when all of it was last made use of
	examining bool        // somebody measures its health
	unbounded string      // why its limits are not in force although it is staged
	shown     record      // a copy of the journal's record, for readers
	stagings  uint64      // how often it was staged or unstaged by that
	watched   bool        // somebody looks after its frozen I/O
	replica   replica     // of a replicated volume; parts of it are guarded by lock

	// Guarded by lock.
	journal   *journal
	content   Content            // of the attached device, as far as it was read
	formatted bool               // mkfs ended on it and the log has not heard
	applied   *fsm.Limits        // in force on the attached device; nil: not known
	failures  int                // of the background in a row
	failed    attempt            // which of the operator's attempts they belong to
	tried     *fsm.DesiredVolume // what was looked at last, for whoever says why that failed
	limiting  bool               // and that it was new limits
}

// telling is a report that the log took.
type telling struct {
	at    fsm.Epoch
	until time.Time // when it is made again if no wish showed it
	times int
}

// attempt tells apart what an operator asked to be tried again.
type attempt struct {
	operation fsm.OperationID
	number    uint32
}

// volume finds or makes the entry of a volume. The caller holds mu, or is alone.
func (e *Executor) volume(id fsm.VolumeID) *volume {
	v, ok := e.volumes[id]
	if !ok {
		v = &volume{id: id, lock: make(chan struct{}, 1), news: make(chan struct{}), flying: map[fact]struct{}{}, told: map[fact]telling{}, known: map[fact]struct{}{}}
		e.volumes[id] = v
	}
	return v
}

// tryLock takes the lock if it is free; else whoever holds it queues the volume again.
func (e *Executor) tryLock(v *volume) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.parked != nil || v.held != nil {
		return false // queued again when the child is gone, or the hold
	}
	if e.volumes[v.id] != v {
		return false // it was dropped since it was found
	}
	select {
	case v.lock <- struct{}{}:
		return true
	default:
		v.again = true
		return false
	}
}

// unlock frees the volume for the next.
func (e *Executor) unlock(v *volume) {
	e.mu.Lock()
	defer e.mu.Unlock()
	<-v.lock
	v.wake()
	if v.again {
		v.again = false
		e.queue.add(v.id)
	}
}

// open reads the volume's record, once. The caller holds the lock.
func (e *Executor) open(v *volume) error {
	if v.journal == nil {
		j, err := openJournal(e.Host.dir, v.id)
		if err != nil {
			return err
		}
		v.journal = j
	}
	return e.prune(v)
}

// prune drops what the log has taken from the outbox. It need not be synced: what
// is said again is passed over (S16).
func (e *Executor) prune(v *volume) error {
	e.mu.Lock()
	heard := v.heard
	e.mu.Unlock()
	var left []owed
	for _, o := range v.journal.Owed {
		if o.Sequence > heard {
			left = append(left, o)
		}
	}
	if len(left) == len(v.journal.Owed) {
		return nil
	}
	v.journal.Owed = left
	return e.save(v, false)
}

// save writes the volume's record.
func (e *Executor) save(v *volume, sync bool) error {
	e.hit("save-record.before")
	err := v.journal.save(sync)
	e.hit("save-record.after")
	e.mu.Lock()
	defer e.mu.Unlock()
	e.show(v)
	return err
}

// park sets the volume aside until a child that cannot be killed is gone: its
// device must not be touched meanwhile.
func (e *Executor) park(v *volume, err error) {
	stuck := stuckIn(err)
	if stuck == nil {
		return
	}
	e.mu.Lock()
	v.parked = stuck
	e.mu.Unlock()
	e.Logger.Error("the volume is set aside until a stuck command ends", "volume", v.id, "error", err)
	go func() {
		<-stuck
		e.mu.Lock()
		defer e.mu.Unlock()
		v.parked = nil
		v.wake()
		e.queue.add(v.id)
	}()
}

// stuckIn is closed when the children are gone that an error tells of and that cannot be
// killed; nil when it tells of none.
func stuckIn(err error) <-chan struct{} { return allGone(childrenIn(err)) }

// childrenIn looks at all that was joined: errors.As would stop at a child that is gone.
func childrenIn(err error) (stuck []<-chan struct{}) {
	if c, ok := any(err).(interface{ Parked() <-chan struct{} }); ok && c.Parked() != nil {
		stuck = append(stuck, c.Parked())
	}
	switch wrapping := any(err).(type) {
	case interface{ Unwrap() error }:
		stuck = append(stuck, childrenIn(wrapping.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, part := range wrapping.Unwrap() {
			stuck = append(stuck, childrenIn(part)...)
		}
	}
	return stuck
}

// allGone is closed when all of them are; nil for none.
func allGone(children []<-chan struct{}) <-chan struct{} {
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
func (e *Executor) backend(v *volume) (Backend, error) {
	e.mu.Lock()
	id := v.shown.Pool
	if v.wish != nil && v.wish.Pool != "" {
		id = v.wish.Pool
	}
	e.mu.Unlock()
	if b, ok := e.pools[id]; ok {
		return e.asReplica(v, b)
	}
	if id == "" && len(e.Pools) == 1 {
		return e.asReplica(v, e.Pools[0])
	}
	return nil, fsm.Reject(fsm.Precondition, "volume %s is in pool %q, which this host does not have", v.id, id)
}

// backoff says how long to wait before what failed so often is looked at again.
func backoff(failures int) time.Duration {
	const first, last = 100 * time.Millisecond, 10 * time.Second
	return min(last, first<<min(failures, 16))
}

func (e *Executor) logger(v *volume) *slog.Logger { return e.Logger.With("volume", v.id) }

// wrap says what was being done to which volume; refusals say it themselves.
func wrap(v *volume, kind stepKind, err error) error {
	var rej *fsm.Rejection
	if err == nil || errors.As(err, &rej) {
		return err
	}
	return fmt.Errorf("%s volume %s: %w", kind, v.id, err)
}
