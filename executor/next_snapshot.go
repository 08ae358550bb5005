package executor

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// snapshotView is all that is known of a snapshot.
type snapshotView struct {
	desired    *fsm.DesiredSnapshot // nil when the log wants nothing of it
	actionable bool                 // the wish may be acted on (S1, S14)
	// incarnationID is of whoever said the wish (S1).
	incarnationID []byte
	have          Device
	record        snapshotRecord
	freezeHold    *freezeState
	now           time.Time
}

// freezeState is what is known of a volume that is held for a group's attempt.
type freezeState struct {
	attempt uint32
	until   time.Time // when the freeze ends by itself; zero without one
}

// isUnbroken tells whether the hold was never interrupted until now.
func (h *freezeState) isUnbroken(now time.Time) bool {
	return h != nil && (h.until.IsZero() || now.Before(h.until))
}

// nextSnapshotStep picks the one step that brings a snapshot closer to what the log wants. It
// is pure. A cut in a group counts only under the one freeze that was reported, by
// this process; what is left of another is thawed, and reported so (S19).
func nextSnapshotStep(s *snapshotView) step {
	w := s.desired
	switch {
	case w == nil && s.freezeHold != nil:
		return step{kind: stepThaw}
	case w == nil && s.record.Phase != phaseNone:
		return step{kind: stepForgetSnapshotRecord}
	case s.freezeHold != nil && !s.freezeHold.isUnbroken(s.now):
		return step{kind: stepThaw} // it is over, whatever the log says: calls may go on (S28)
	case w == nil, !s.actionable:
		return step{}
	case s.freezeHold != nil && !s.keepsFreezeHold():
		return step{kind: stepThaw}
	case s.have.Absent && w.Goal == fsm.SnapshotGoalKeep:
		return step{} // an absent pool says nothing of its files (S12)
	case s.have.Absent:
		return refuse(fsm.Unreachable, "the pool of snapshot %s is absent", w.Snapshot)
	}
	switch w.Goal {
	case fsm.SnapshotGoalFreeze:
		return nextFreezeMember(s)
	case fsm.SnapshotGoalTake:
		if w.Group != "" {
			return nextTakeMember(s)
		}
		return nextTakeSingle(s)
	case fsm.SnapshotGoalKeep:
		return nextKeepSnapshot(s)
	case fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove:
		return nextRemoveSnapshot(s)
	}
	return step{}
}

// keepsFreezeHold: the hold is of the attempt that is under way, unbroken, and not done with.
func (s *snapshotView) keepsFreezeHold() bool {
	if s.freezeHold.attempt != s.desired.Attempt || s.desired.Group == "" {
		return false
	}
	switch s.desired.Goal {
	case fsm.SnapshotGoalFreeze:
		return true
	case fsm.SnapshotGoalTake:
		return !s.isTaken()
	case fsm.SnapshotGoalKeep, fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove:
	}
	return false
}

// isCut: this attempt's cut is there, whole.
func (s *snapshotView) isTaken() bool {
	return s.have.Exists && s.record.Phase == phaseTaken && s.record.Attempt == s.desired.Attempt
}

// nextFreezeMember: one freeze for each attempt, ever.
func nextFreezeMember(s *snapshotView) step {
	switch {
	case s.freezeHold != nil, s.desired.Frozen, s.record.isOfAttempt(s.desired.Attempt):
		return step{} // told: frozen, or that it is no more
	case s.have.Exists || s.have.Unfinished: // an attempt's that was given up
		return step{kind: stepRemoveSnapshot}
	}
	return step{kind: stepFreeze}
}

func nextTakeMember(s *snapshotView) step {
	if s.freezeHold == nil || s.isTaken() {
		return step{} // told: cut, or that the freeze is no more
	}
	return step{kind: stepTakeSnapshot}
}

// nextTakeSingle freezes, cuts and thaws. What a process that died left is adopted when it
// is known to be whole, or when nothing is known of its beginning.
func nextTakeSingle(s *snapshotView) step {
	switch {
	case s.have.Exists && s.record.Phase == phaseBegun:
		return step{kind: stepRemoveSnapshot} // it was never reported, and may be torn
	case s.have.Exists:
		return step{}
	}
	return step{kind: stepTakeSnapshot}
}

func nextKeepSnapshot(s *snapshotView) step {
	switch {
	case s.record.Phase == phaseBegun && s.have.Exists:
		return step{} // it failed, and what is left of it must not be adopted by a retry
	case s.record.Phase == phaseBegun, s.record.Phase == phaseTaken:
		return step{kind: stepForgetSnapshotRecord} // the log knows
	case !s.have.Exists && s.record.Phase == phaseNone:
		return step{kind: stepRecordMissing}
	}
	return step{}
}

// nextRemoveSnapshot is said by the log (S14).
func nextRemoveSnapshot(s *snapshotView) step {
	switch {
	case s.have.Exists || s.have.Unfinished:
		return step{kind: stepRemoveSnapshot}
	case s.record.Phase != phaseNone:
		return step{kind: stepForgetSnapshotRecord}
	}
	return step{}
}

const (
	factSnapshotTaken   = "cut"
	factFrozen          = "frozen"
	factThawed          = "thawed"
	factSnapshotMissing = "snapshot-missing"
	factSnapshotFound   = "snapshot-found"
	factSnapshotGone    = "snapshot-gone"
)

// unreportedSnapshotFact is what the log does not know of the snapshot, empty for nothing. It is
// asked when there is no step to do.
func unreportedSnapshotFact(s *snapshotView) string {
	w := s.desired
	if w == nil || !s.actionable || s.have.Absent {
		return ""
	}
	switch w.Goal {
	case fsm.SnapshotGoalFreeze:
		return s.unreportedFreezeFact()
	case fsm.SnapshotGoalTake:
		switch {
		case w.Group == "" && s.have.Exists, s.isTaken():
			return factSnapshotTaken
		case w.Group != "" && s.freezeHold == nil:
			return factThawed
		}
	case fsm.SnapshotGoalKeep:
		switch {
		case !s.have.Exists:
			return factSnapshotMissing
		case s.record.Phase == phaseMissing:
			return factSnapshotFound
		}
	case fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove:
		return factSnapshotGone
	}
	return ""
}

func (s *snapshotView) unreportedFreezeFact() string {
	switch {
	case s.freezeHold == nil:
		return factThawed
	case !s.desired.Frozen:
		return factFrozen
	}
	return ""
}
