package executor

import (
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// reportSnapshot sends what is new of a snapshot, and does not wait for the log.
func (r *snapshotReporter) reportSnapshot(c *snapshotState, s *snapshotView) {
	name := unreportedSnapshotFact(s)
	if name == "" {
		return
	}
	f := fact{name: name, epoch: fsm.Epoch{Index: uint64(s.desired.Attempt)}}
	r.mu.Lock()
	acked := c.isAcked(f)
	r.mu.Unlock()
	if acked {
		return
	}
	ob := observationOf(c.id, s.desired.Source)
	s.fillObservation(name, ob)
	r.sendSnapshotFact(c, f, ob)
}

func observationOf(id fsm.SnapshotID, source fsm.VolumeID) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: string(source), SnapshotId: string(id)}
}

// put makes the fact the observation's.
func (s *snapshotView) fillObservation(name string, ob *fsmpb.Observation) {
	attempt := s.desired.Attempt
	switch name {
	case factSnapshotTaken, factSnapshotFound:
		takenAt := s.record.TakenAt
		if s.record.Phase != phaseTaken || takenAt.IsZero() {
			takenAt = s.now // nothing is known of the process that cut it
		}
		ob.Fact = &fsmpb.Observation_SnapshotCut{SnapshotCut: &fsmpb.SnapshotCut{
			SizeBytes: s.have.Size, CutUnixNano: takenAt.UnixNano(), Attempt: attempt,
		}}
	case factFrozen:
		frozen := &fsmpb.Frozen{Attempt: attempt}
		if !s.freezeHold.until.IsZero() {
			frozen.UntilUnixNano = s.freezeHold.until.UnixNano()
		}
		ob.Fact = &fsmpb.Observation_Frozen{Frozen: frozen}
	case factThawed:
		ob.Fact = &fsmpb.Observation_Thawed{Thawed: &fsmpb.Thawed{Attempt: attempt}}
	case factSnapshotMissing:
		ob.Fact = &fsmpb.Observation_SnapshotMissing{SnapshotMissing: &fsmpb.SnapshotMissing{Detail: "its file is not in the pool"}}
	case factSnapshotGone:
		ob.Fact = &fsmpb.Observation_SnapshotGone{SnapshotGone: &fsmpb.SnapshotGone{Attempt: attempt}}
	}
}

// sendSnapshotFact has one observation reported, unless it is under way.
func (r *snapshotReporter) sendSnapshotFact(c *snapshotState, f fact, ob *fsmpb.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !c.beginReport(f) {
		return
	}
	r.reports.send(reportBatch{[]*fsmpb.Observation{ob}, func(at fsm.Epoch, err error) { r.onSnapshotFactAnswer(c, f, at, err) }})
}

// onSnapshotFactAnswer is the answer: what was not taken is looked at again.
func (r *snapshotReporter) onSnapshotFactAnswer(c *snapshotState, f fact, at fsm.Epoch, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.endReport(f) {
		r.snapshotQueue.add(c.id)
	}
	switch {
	case c.desired == nil:
		r.snapshotQueue.add(c.id) // it may be dropped now
	case f.name == factStepFailed: // it is tried again whatever the log says
	case err != nil:
		r.snapshotQueue.addAfter(c.id, reportRetry)
	case at.Incarnation != r.session.at.Incarnation:
		r.snapshotQueue.add(c.id) // a restored log may not have it (S1)
	case isLasting(f.name):
		c.acked[f] = ackedReport{at: fsm.Epoch{Incarnation: ^uint64(0)}, resendAt: time.Now().Add(lastingResendDelay)}
	case c.desiredAt.Compare(at) < 0:
		r.snapshotQueue.addAfter(c.id, c.noteAcked(f, at, c.acked[f].count))
	}
}

// isLasting facts change no wish, so that none shows that they were heard.
func isLasting(name string) bool { return name == factSnapshotMissing || name == factSnapshotFound }

// lastingResendDelay is how long such a fact is not told again.
const lastingResendDelay = time.Hour

// reportSnapshotFailure says why a cut or a removal does not get on: at first each time, then
// ever more seldom.
func (r *snapshotReporter) reportSnapshotFailure(c *snapshotState, err error) {
	r.Logger.Warn("the snapshot is not as the log wants it", "snapshot", c.id, "error", err, "failures", c.failures+1)
	w := c.lastTried
	if w == nil || w.Goal == fsm.SnapshotGoalKeep || isUnavailable(err) || c.failures > 3 && c.failures&(c.failures-1) != 0 {
		return
	}
	ob := observationOf(c.id, w.Source)
	failure := failureOf(snapshotOperationStep(w), err)
	failure.Final = failure.Final && (w.Goal == fsm.SnapshotGoalTake || w.Goal == fsm.SnapshotGoalFreeze)
	if r.atLevel2() {
		failure.OperationId, failure.Attempt = uint64(w.Operation), w.Retry
	}
	ob.Fact = &fsmpb.Observation_StepFailed{StepFailed: failure}
	r.sendSnapshotFact(c, fact{name: factStepFailed}, ob)
}

func snapshotOperationStep(w *fsm.DesiredSnapshot) string {
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
	f.Final = f.Final || f.NoSpace || isPermanent(err)
	return f
}

// progressInterval is how often a copy's progress is told.
const progressInterval = 2 * time.Second

// progress tells the log how far a copy is, now and then, and waits for nothing.
func (r *reporter) progress(volume fsm.VolumeID, snapshot fsm.SnapshotID, source fsm.VolumeID) Progress {
	last := time.Now()
	return func(done, total int64) {
		if time.Since(last) < progressInterval {
			return
		}
		last = time.Now()
		ob := observationOf(snapshot, source)
		if snapshot == "" {
			ob.VolumeId = string(volume)
		}
		ob.Fact = &fsmpb.Observation_Progress{Progress: &fsmpb.Progress{DoneBytes: done, TotalBytes: total}}
		r.send(reportBatch{[]*fsmpb.Observation{ob}, func(fsm.Epoch, error) {}})
	}
}
