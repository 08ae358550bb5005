package plan

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// SnapshotView is all that is known of a snapshot.
type SnapshotView struct {
	Desired    *fsm.DesiredSnapshot // nil when the log wants nothing of it
	Actionable bool                 // the wish may be acted on (S1, S14)
	// IncarnationID is of whoever said the wish (S1).
	IncarnationID []byte
	Have          executor.Device
	Record        records.SnapshotRecord
	FreezeHold    *FreezeState
	Now           time.Time
}

// FreezeState is what is known of a volume that is held for a group's attempt.
type FreezeState struct {
	Attempt uint32
	Until   time.Time // when the freeze ends by itself; zero without one
}

// isUnbroken tells whether the hold was never interrupted until now.
func (h *FreezeState) isUnbroken(now time.Time) bool {
	return h != nil && (h.Until.IsZero() || now.Before(h.Until))
}

// NextSnapshotStep picks the one step that brings a snapshot closer to what the log wants. It
// is pure. A cut in a group counts only under the one freeze that was reported, by
// this process; what is left of another is thawed, and reported so (S19).
func NextSnapshotStep(s *SnapshotView) Step {
	w := s.Desired
	switch {
	case w == nil && s.FreezeHold != nil:
		return Step{Kind: StepThaw}
	case w == nil && s.Record.Phase != records.PhaseNone:
		return Step{Kind: StepForgetSnapshotRecord}
	case s.FreezeHold != nil && !s.FreezeHold.isUnbroken(s.Now):
		return Step{Kind: StepThaw} // it is over, whatever the log says: calls may go on (S28)
	case w == nil, !s.Actionable:
		return Step{}
	case s.FreezeHold != nil && !s.keepsFreezeHold():
		return Step{Kind: StepThaw}
	case s.Have.Absent && w.Goal == fsm.SnapshotGoalKeep:
		return Step{} // an absent pool says nothing of its files (S12)
	case s.Have.Absent:
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
	return Step{}
}

// keepsFreezeHold: the hold is of the attempt that is under way, unbroken, and not done with.
func (s *SnapshotView) keepsFreezeHold() bool {
	if s.FreezeHold.Attempt != s.Desired.Attempt || s.Desired.Group == "" {
		return false
	}
	switch s.Desired.Goal {
	case fsm.SnapshotGoalFreeze:
		return true
	case fsm.SnapshotGoalTake:
		return !s.isTaken()
	case fsm.SnapshotGoalKeep, fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove:
	}
	return false
}

// isCut: this attempt's cut is there, whole.
func (s *SnapshotView) isTaken() bool {
	return s.Have.Exists && s.Record.Phase == records.PhaseTaken && s.Record.Attempt == s.Desired.Attempt
}

// nextFreezeMember: one freeze for each attempt, ever.
func nextFreezeMember(s *SnapshotView) Step {
	switch {
	case s.FreezeHold != nil, s.Desired.Frozen, s.Record.IsOfAttempt(s.Desired.Attempt):
		return Step{} // told: frozen, or that it is no more
	case s.Have.Exists || s.Have.Unfinished: // an attempt's that was given up
		return Step{Kind: StepRemoveSnapshot}
	}
	return Step{Kind: StepFreeze}
}

func nextTakeMember(s *SnapshotView) Step {
	if s.FreezeHold == nil || s.isTaken() {
		return Step{} // told: cut, or that the freeze is no more
	}
	return Step{Kind: StepTakeSnapshot}
}

// nextTakeSingle freezes, cuts and thaws. What a process that died left is adopted when it
// is known to be whole, or when nothing is known of its beginning.
func nextTakeSingle(s *SnapshotView) Step {
	switch {
	case s.Have.Exists && s.Record.Phase == records.PhaseBegun:
		return Step{Kind: StepRemoveSnapshot} // it was never reported, and may be torn
	case s.Have.Exists:
		return Step{}
	}
	return Step{Kind: StepTakeSnapshot}
}

func nextKeepSnapshot(s *SnapshotView) Step {
	switch {
	case s.Record.Phase == records.PhaseBegun && s.Have.Exists:
		return Step{} // it failed, and what is left of it must not be adopted by a retry
	case s.Record.Phase == records.PhaseBegun, s.Record.Phase == records.PhaseTaken:
		return Step{Kind: StepForgetSnapshotRecord} // the log knows
	case !s.Have.Exists && s.Record.Phase == records.PhaseNone:
		return Step{Kind: StepRecordMissing}
	}
	return Step{}
}

// nextRemoveSnapshot is said by the log (S14).
func nextRemoveSnapshot(s *SnapshotView) Step {
	switch {
	case s.Have.Exists || s.Have.Unfinished:
		return Step{Kind: StepRemoveSnapshot}
	case s.Record.Phase != records.PhaseNone:
		return Step{Kind: StepForgetSnapshotRecord}
	}
	return Step{}
}
