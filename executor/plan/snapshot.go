package plan

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// SnapshotView is all that is known of a snapshot: observed, recorded and desired.
type SnapshotView struct {
	Desired    *fsm.DesiredSnapshot // nil when nothing is desired of it
	Actionable bool                 // the desired state may be acted on (S1, S14)
	// IncarnationID is that of the incarnation that the desired state is from (S1).
	IncarnationID []byte
	Have          executor.Device
	Record        records.SnapshotRecord
	FreezeHold    *FreezeState
	Now           time.Time
}

// FreezeState is what is known of the freeze hold of a volume, for one attempt of a group snapshot.
type FreezeState struct {
	Attempt uint32
	Until   time.Time // when the freeze ends by itself; zero without a freeze
}

// isUnbroken reports whether the hold has lasted without interruption until now.
func (h *FreezeState) isUnbroken(now time.Time) bool {
	return h != nil && (h.Until.IsZero() || now.Before(h.Until))
}

// NextSnapshotStep picks the one step that brings a snapshot closer to its desired state. It is
// pure. A member of a group snapshot counts only when taken under the one freeze that this
// process reported; any other freeze is thawed, and reported as broken (S19).
func NextSnapshotStep(s *SnapshotView) Step {
	d := s.Desired
	switch {
	case d == nil && s.FreezeHold != nil:
		return Step{Kind: StepThaw}
	case d == nil && s.Record.Phase != records.PhaseNone:
		return Step{Kind: StepForgetSnapshotRecord}
	case s.FreezeHold != nil && !s.FreezeHold.isUnbroken(s.Now):
		return Step{Kind: StepThaw} // the hold is over, whatever the log says: calls may continue (S28)
	case d == nil, !s.Actionable:
		return Step{}
	case s.FreezeHold != nil && !s.keepsFreezeHold():
		return Step{Kind: StepThaw}
	case s.Have.Absent && d.Goal == fsm.SnapshotGoalKeep:
		return Step{} // an absent pool tells nothing of its files (S12)
	case s.Have.Absent:
		return refuse(fsm.Unreachable, "the pool of snapshot %s is absent", d.Snapshot)
	}
	switch d.Goal {
	case fsm.SnapshotGoalFreeze:
		return nextFreezeMember(s)
	case fsm.SnapshotGoalTake:
		if d.Group != "" {
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

// keepsFreezeHold: the hold is of the current attempt, unbroken, and still needed.
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

// isTaken reports whether this attempt's snapshot exists and is complete.
func (s *SnapshotView) isTaken() bool {
	return s.Have.Exists && s.Record.Phase == records.PhaseTaken && s.Record.Attempt == s.Desired.Attempt
}

// nextFreezeMember freezes a group's member: only once in each attempt.
func nextFreezeMember(s *SnapshotView) Step {
	switch {
	case s.FreezeHold != nil, s.Desired.Frozen, s.Record.IsOfAttempt(s.Desired.Attempt):
		return Step{} // reported as frozen, or as frozen no longer
	case s.Have.Exists || s.Have.Unfinished: // left by an attempt that was given up
		return Step{Kind: StepRemoveSnapshot}
	}
	return Step{Kind: StepFreeze}
}

func nextTakeMember(s *SnapshotView) Step {
	if s.FreezeHold == nil || s.isTaken() {
		return Step{} // reported as taken, or as frozen no longer
	}
	return Step{Kind: StepTakeSnapshot}
}

// nextTakeSingle freezes, takes the snapshot, and thaws. What a dead process left is adopted
// when its record says that it is complete, or when there is no record of its beginning.
func nextTakeSingle(s *SnapshotView) Step {
	switch {
	case s.Have.Exists && s.Record.Phase == records.PhaseBegun && !plantedbug.Is(plantedbug.TornSnapshot):
		return Step{Kind: StepRemoveSnapshot} // it was never reported, and may be torn
	case s.Have.Exists && s.Have.Size < s.Desired.Size:
		return Step{Kind: StepRemoveSnapshot} // a copy that ended early, of which no report would be accepted
	case s.Have.Exists && s.Have.Size > s.Desired.Size: // nor of this one, which another copy would not make smaller
		return refuse(fsm.Precondition, "snapshot %s has %d bytes, not %d", s.Desired.Snapshot, s.Have.Size, s.Desired.Size)
	case s.Have.Exists:
		return Step{}
	}
	return Step{Kind: StepTakeSnapshot}
}

func nextKeepSnapshot(s *SnapshotView) Step {
	switch {
	case s.Record.Phase == records.PhaseBegun && s.Have.Exists:
		return Step{} // it failed, and a retry must not adopt what is left of it
	case s.Record.Phase == records.PhaseBegun, s.Record.Phase == records.PhaseTaken:
		return Step{Kind: StepForgetSnapshotRecord} // the log has it
	case !s.Have.Exists && s.Record.Phase == records.PhaseNone:
		return Step{Kind: StepRecordMissing}
	}
	return Step{}
}

// nextRemoveSnapshot removes the snapshot, by its desired state (S14).
func nextRemoveSnapshot(s *SnapshotView) Step {
	switch {
	case s.Have.Exists || s.Have.Unfinished:
		return Step{Kind: StepRemoveSnapshot}
	case s.Record.Phase != records.PhaseNone:
		return Step{Kind: StepForgetSnapshotRecord}
	}
	return Step{}
}
