package plan

import (
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	factSnapshotTaken   = "cut"
	factFrozen          = "frozen"
	factThawed          = "thawed"
	FactSnapshotMissing = "snapshot-missing"
	FactSnapshotFound   = "snapshot-found"
	factSnapshotGone    = "snapshot-gone"
)

// UnreportedSnapshotFact is what the log does not have of the snapshot, empty for nothing. It
// is called when there is no step to do.
func UnreportedSnapshotFact(s *SnapshotView) string {
	d := s.Desired
	if d == nil || !s.Actionable || s.Have.Absent {
		return ""
	}
	switch d.Goal {
	case fsm.SnapshotGoalFreeze:
		return s.unreportedFreezeFact()
	case fsm.SnapshotGoalTake:
		switch {
		case d.Group == "" && s.Have.Exists, s.isTaken():
			return factSnapshotTaken
		case d.Group != "" && s.FreezeHold == nil:
			return factThawed
		}
	case fsm.SnapshotGoalKeep:
		switch {
		case !s.Have.Exists:
			return FactSnapshotMissing
		case s.Record.Phase == records.PhaseMissing:
			return FactSnapshotFound
		}
	case fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove:
		return factSnapshotGone
	}
	return ""
}

func (s *SnapshotView) unreportedFreezeFact() string {
	switch {
	case s.FreezeHold == nil:
		return factThawed
	case !s.Desired.Frozen:
		return factFrozen
	}
	return ""
}

// ObservationOf is an observation of a snapshot, without a fact yet.
func ObservationOf(id fsm.SnapshotID, source fsm.VolumeID) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: string(source), SnapshotId: string(id)}
}

// FillObservation sets the named fact in the observation.
func (s *SnapshotView) FillObservation(name string, ob *fsmpb.Observation) {
	attempt := s.Desired.Attempt
	switch name {
	case factSnapshotTaken, FactSnapshotFound:
		takenAt := s.Record.TakenAt
		if s.Record.Phase != records.PhaseTaken || takenAt.IsZero() {
			takenAt = s.Now // nothing is known of the process that took it
		}
		ob.Fact = &fsmpb.Observation_SnapshotCut{SnapshotCut: &fsmpb.SnapshotCut{
			SizeBytes: s.Have.Size, CutUnixNano: takenAt.UnixNano(), Attempt: attempt,
		}}
	case factFrozen:
		frozen := &fsmpb.Frozen{Attempt: attempt}
		if !s.FreezeHold.Until.IsZero() {
			frozen.UntilUnixNano = s.FreezeHold.Until.UnixNano()
		}
		ob.Fact = &fsmpb.Observation_Frozen{Frozen: frozen}
	case factThawed:
		ob.Fact = &fsmpb.Observation_Thawed{Thawed: &fsmpb.Thawed{Attempt: attempt}}
	case FactSnapshotMissing:
		ob.Fact = &fsmpb.Observation_SnapshotMissing{SnapshotMissing: &fsmpb.SnapshotMissing{Detail: "its file is not in the pool"}}
	case factSnapshotGone:
		ob.Fact = &fsmpb.Observation_SnapshotGone{SnapshotGone: &fsmpb.SnapshotGone{Attempt: attempt}}
	}
}

// SnapshotOperationStep names what a snapshot's operation is doing, for the log and operators.
func SnapshotOperationStep(d *fsm.DesiredSnapshot) string {
	switch d.Goal {
	case fsm.SnapshotGoalFreeze:
		return "freeze"
	case fsm.SnapshotGoalTake:
		return "cut"
	case fsm.SnapshotGoalThaw, fsm.SnapshotGoalRemove, fsm.SnapshotGoalKeep:
	}
	return "remove"
}
