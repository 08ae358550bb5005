package executor

import (
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// tellSnapshot sends what is new of a snapshot, and does not wait for the log.
func (e *Executor) tellSnapshot(c *cutting, s *cutSituation) {
	name := cutNews(s)
	if name == "" {
		return
	}
	f := fact{name: name, epoch: fsm.Epoch{Index: uint64(s.wish.Attempt)}}
	e.mu.Lock()
	told, ok := c.told[f]
	e.mu.Unlock()
	if ok && time.Now().Before(told.until) {
		return
	}
	ob := observationOf(c.id, s.wish.Source)
	s.put(name, ob)
	e.sendSnapshot(c, f, ob)
}

func observationOf(id fsm.SnapshotID, source fsm.VolumeID) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: string(source), SnapshotId: string(id)}
}

// put makes the fact the observation's.
func (s *cutSituation) put(name string, ob *fsmpb.Observation) {
	attempt := s.wish.Attempt
	switch name {
	case factCut, factFound:
		cut := s.record.Cut
		if s.record.Phase != cutDone || cut.IsZero() {
			cut = s.now // nothing is known of the process that cut it
		}
		ob.Fact = &fsmpb.Observation_SnapshotCut{SnapshotCut: &fsmpb.SnapshotCut{
			SizeBytes: s.have.Size, CutUnixNano: cut.UnixNano(), Attempt: attempt,
		}}
	case factFrozen:
		frozen := &fsmpb.Frozen{Attempt: attempt}
		if !s.held.until.IsZero() {
			frozen.UntilUnixNano = s.held.until.UnixNano()
		}
		ob.Fact = &fsmpb.Observation_Frozen{Frozen: frozen}
	case factThawed:
		ob.Fact = &fsmpb.Observation_Thawed{Thawed: &fsmpb.Thawed{Attempt: attempt}}
	case factMissed:
		ob.Fact = &fsmpb.Observation_SnapshotMissing{SnapshotMissing: &fsmpb.SnapshotMissing{Detail: "its file is not in the pool"}}
	case factRemoved:
		ob.Fact = &fsmpb.Observation_SnapshotGone{SnapshotGone: &fsmpb.SnapshotGone{Attempt: attempt}}
	}
}

// sendSnapshot has one observation reported, unless it is under way.
func (e *Executor) sendSnapshot(c *cutting, f fact, ob *fsmpb.Observation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, flying := c.flying[f]; flying {
		c.unsaid = true // it may be passed over, and then nobody would say it again
		return
	}
	c.flying[f] = struct{}{}
	e.reports.send(letter{[]*fsmpb.Observation{ob}, func(at fsm.Epoch, err error) { e.sentSnapshot(c, f, at, err) }})
}

// sentSnapshot is the answer: what was not taken is looked at again.
func (e *Executor) sentSnapshot(c *cutting, f fact, at fsm.Epoch, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(c.flying, f)
	if c.unsaid {
		c.unsaid = false
		e.cuts.add(c.id)
	}
	switch {
	case c.wish == nil:
		e.cuts.add(c.id) // it may be dropped now
	case f.name == factFailed: // it is tried again whatever the log says
	case err != nil:
		e.cuts.addAfter(c.id, retryReport)
	case at.Incarnation != e.session.at.Incarnation:
		e.cuts.add(c.id) // a restored log may not have it (S1)
	case lasting(f.name), c.wishAt.Compare(at) < 0:
		times := c.told[f].times
		patience := tellAgain << min(times, 8)
		if lasting(f.name) {
			at, patience = fsm.Epoch{Incarnation: ^uint64(0)}, lastingPatience
		} else {
			e.cuts.addAfter(c.id, patience)
		}
		c.told[f] = telling{at: at, until: time.Now().Add(patience), times: times + 1}
	}
}

// lasting facts change no wish, so that none shows that they were heard.
func lasting(name string) bool { return name == factMissed || name == factFound }

// lastingPatience is how long such a fact is not told again.
const lastingPatience = time.Hour

// failedSnapshot says why a cut or a removal does not get on: at first each time, then
// ever more seldom.
func (e *Executor) failedSnapshot(c *cutting, err error) {
	e.Logger.Warn("the snapshot is not as the log wants it", "snapshot", c.id, "error", err, "failures", c.failures+1)
	w := c.tried
	if w == nil || w.Goal == fsm.SnapshotGoalKeep || isUnavailable(err) || c.failures > 3 && c.failures&(c.failures-1) != 0 {
		return
	}
	ob := observationOf(c.id, w.Source)
	failure := failureOf(snapshotStepOf(w), err)
	failure.Final = failure.Final && (w.Goal == fsm.SnapshotGoalTake || w.Goal == fsm.SnapshotGoalFreeze)
	if e.level2() {
		failure.OperationId, failure.Attempt = uint64(w.Operation), w.Retry
	}
	ob.Fact = &fsmpb.Observation_StepFailed{StepFailed: failure}
	e.sendSnapshot(c, fact{name: factFailed}, ob)
}

func snapshotStepOf(w *fsm.DesiredSnapshot) string {
	switch w.Goal {
	case fsm.SnapshotGoalFreeze:
		return "freeze"
	case fsm.SnapshotGoalTake:
		return "cut"
	case fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove, fsm.SnapshotGoalKeep:
	}
	return "remove"
}

// failureOf is an error as the log takes it, with the reason of a refusal. A refusal
// for good is final: asked again, the answer is the same (S19).
func failureOf(what string, err error) *fsmpb.StepFailed {
	f := &fsmpb.StepFailed{Step: what, Error: err.Error(), NoSpace: noSpace(err)}
	var rej *fsm.Rejection
	if errors.As(err, &rej) {
		f.Reason = uint32(rej.Reason)
		f.Final = rej.Reason == fsm.Precondition || rej.Reason == fsm.OutOfRange
	}
	f.Final = f.Final || f.NoSpace || isFinal(err)
	return f
}

// progressEvery is how often a copy's progress is told.
const progressEvery = 2 * time.Second

// progress tells the log how far a copy is, now and then, and waits for nothing.
func (e *Executor) progress(volume fsm.VolumeID, snapshot fsm.SnapshotID, source fsm.VolumeID) Progress {
	last := time.Now()
	return func(done, total int64) {
		if time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		ob := observationOf(snapshot, source)
		if snapshot == "" {
			ob.VolumeId = string(volume)
		}
		ob.Fact = &fsmpb.Observation_Progress{Progress: &fsmpb.Progress{DoneBytes: done, TotalBytes: total}}
		e.reports.send(letter{[]*fsmpb.Observation{ob}, func(fsm.Epoch, error) {}})
	}
}
