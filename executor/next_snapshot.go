package executor

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// cutSituation is all that is known of a snapshot.
type cutSituation struct {
	wish  *fsm.DesiredSnapshot // nil when the log wants nothing of it
	fresh bool                 // the wish may be acted on (S1, S14)
	// incarnationID is of whoever said the wish (S1).
	incarnationID []byte
	have          Device
	record        snapshotRecord
	held          *hold
	now           time.Time
}

// nextCut picks the one step that brings a snapshot closer to what the log wants. It
// is pure. A cut in a group counts only under the one freeze that was reported, by
// this process; what is left of another is thawed, and reported so (S19).
func nextCut(s *cutSituation) step {
	w := s.wish
	switch {
	case w == nil && s.held != nil:
		return step{kind: stepThaw}
	case w == nil && s.record.Phase != cutNone:
		return step{kind: stepForget}
	case s.held != nil && !s.held.alive(s.now):
		return step{kind: stepThaw} // it is over, whatever the log says: calls may go on (S28)
	case w == nil, !s.fresh:
		return step{}
	case s.held != nil && !s.keepsHold():
		return step{kind: stepThaw}
	case s.have.Absent && w.Goal == fsm.SnapshotGoalKeep:
		return step{} // an absent pool says nothing of its files (S12)
	case s.have.Absent:
		return refuse(fsm.Unreachable, "the pool of snapshot %s is absent", w.Snapshot)
	}
	switch w.Goal {
	case fsm.SnapshotGoalFreeze:
		return freezeMember(s)
	case fsm.SnapshotGoalTake:
		if w.Group != "" {
			return cutMember(s)
		}
		return cutAlone(s)
	case fsm.SnapshotGoalKeep:
		return keepSnapshot(s)
	case fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove:
		return removeSnapshot(s)
	}
	return step{}
}

// keepsHold: the hold is of the attempt that is under way, unbroken, and not done with.
func (s *cutSituation) keepsHold() bool {
	if s.held.attempt != s.wish.Attempt || s.wish.Group == "" {
		return false
	}
	switch s.wish.Goal {
	case fsm.SnapshotGoalFreeze:
		return true
	case fsm.SnapshotGoalTake:
		return !s.isCut()
	case fsm.SnapshotGoalKeep, fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove:
	}
	return false
}

// isCut: this attempt's cut is there, whole.
func (s *cutSituation) isCut() bool {
	return s.have.Exists && s.record.Phase == cutDone && s.record.Attempt == s.wish.Attempt
}

// freezeMember: one freeze for each attempt, ever.
func freezeMember(s *cutSituation) step {
	switch {
	case s.held != nil, s.wish.Frozen, s.record.of(s.wish.Attempt):
		return step{} // told: frozen, or that it is no more
	case s.have.Exists || s.have.Unfinished: // an attempt's that was given up
		return step{kind: stepRemoveSnapshot}
	}
	return step{kind: stepFreeze}
}

func cutMember(s *cutSituation) step {
	if s.held == nil || s.isCut() {
		return step{} // told: cut, or that the freeze is no more
	}
	return step{kind: stepCut}
}

// cutAlone freezes, cuts and thaws. What a process that died left is adopted when it
// is known to be whole, or when nothing is known of its beginning.
func cutAlone(s *cutSituation) step {
	switch {
	case s.have.Exists && s.record.Phase == cutBegun:
		return step{kind: stepRemoveSnapshot} // it was never reported, and may be torn
	case s.have.Exists:
		return step{}
	}
	return step{kind: stepCut}
}

func keepSnapshot(s *cutSituation) step {
	switch {
	case s.record.Phase == cutBegun && s.have.Exists:
		return step{} // it failed, and what is left of it must not be adopted by a retry
	case s.record.Phase == cutBegun, s.record.Phase == cutDone:
		return step{kind: stepForget} // the log knows
	case !s.have.Exists && s.record.Phase == cutNone:
		return step{kind: stepMiss}
	}
	return step{}
}

// removeSnapshot is said by the log (S14).
func removeSnapshot(s *cutSituation) step {
	switch {
	case s.have.Exists || s.have.Unfinished:
		return step{kind: stepRemoveSnapshot}
	case s.record.Phase != cutNone:
		return step{kind: stepForget}
	}
	return step{}
}

const (
	factCut     = "cut"
	factFrozen  = "frozen"
	factThawed  = "thawed"
	factMissed  = "snapshot-missing"
	factFound   = "snapshot-found"
	factRemoved = "snapshot-gone"
)

// cutNews is what the log does not know of the snapshot, empty for nothing. It is
// asked when there is no step to do.
func cutNews(s *cutSituation) string {
	w := s.wish
	if w == nil || !s.fresh || s.have.Absent {
		return ""
	}
	switch w.Goal {
	case fsm.SnapshotGoalFreeze:
		return s.frozenNews()
	case fsm.SnapshotGoalTake:
		switch {
		case w.Group == "" && s.have.Exists, s.isCut():
			return factCut
		case w.Group != "" && s.held == nil:
			return factThawed
		}
	case fsm.SnapshotGoalKeep:
		switch {
		case !s.have.Exists:
			return factMissed
		case s.record.Phase == cutMissing:
			return factFound
		}
	case fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove:
		return factRemoved
	}
	return ""
}

func (s *cutSituation) frozenNews() string {
	switch {
	case s.held == nil:
		return factThawed
	case !s.wish.Frozen:
		return factFrozen
	}
	return ""
}
