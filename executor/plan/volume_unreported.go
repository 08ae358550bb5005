package plan

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// MissedTeardowns lists the teardowns that the log waits for and that have no pending record
// yet: of what was never up here, or went away with a reboot. They follow from observation,
// not from memory (S16).
func MissedTeardowns(s *VolumeView) []records.PendingTeardown {
	d := s.Desired
	if !s.Actionable || d == nil || plantedbug.Is(plantedbug.OutboxLost) {
		return nil
	}
	staged, isDown := s.Record.Staging, !s.Have.isUp() && !s.Have.ioSuspended()
	var missing []records.PendingTeardown
	if d.Teardown != nil && (staged == nil && isDown || staged != nil && staged.Epoch.Compare(d.Teardown.Epoch) > 0) {
		missing = append(missing, records.PendingTeardown{Epoch: d.Teardown.Epoch})
	}
	p := d.Publication
	switch {
	case p == nil:
	case p.Staging != nil && staged == nil && isDown:
		missing = append(missing, records.PendingTeardown{Epoch: p.Epoch})
	default:
		for i := range p.Targets {
			path := p.Targets[i].Path
			if s.Record.Target(path) == nil && !slices.Contains(s.Have.BoundTargets, path) {
				missing = append(missing, records.PendingTeardown{Epoch: p.Epoch, Target: path})
			}
		}
	}
	return missing
}

// Fact is one thing that the log does not have yet: one case of an Observation. Two reports
// with equal Facts are the same report.
type Fact struct {
	Name  string
	Path  string
	Epoch fsm.Epoch
}

const (
	factDeviceCreated  = "created"
	factDeviceGone     = "gone"
	factDeviceMissing  = "missing"
	factDevicePresent  = "present"
	FactStaged         = "staged"
	FactTargetBound    = "bound"
	factDeviceExpanded = "grown"
	FactLimitsApplied  = "limited"
	FactCondition      = "condition"
	FactStepFailed     = "failed"
	FactStagingInUse   = "in-use"
	FactReclaimed      = "reclaimed"
	factUnconverted    = "unconverted"
	factReverted       = "reverted"
)

// UnreportedFacts lists what was observed and differs from what the log has. What the log has
// already is not reported again.
func UnreportedFacts(s *VolumeView) []Fact {
	if s.Desired == nil {
		return nil
	}
	var all []Fact
	if name := s.unreportedDeviceFact(); name != "" {
		all = append(all, Fact{Name: name})
	}
	if f := s.unreportedReplicaFact(); f.Name != "" {
		all = append(all, f)
	}
	if !s.isUpAsDesired() {
		return all
	}
	p, staged := s.Desired.Publication, s.Record.Staging
	if s.limitsUnreported() {
		all = append(all, Fact{Name: FactLimitsApplied, Path: fmt.Sprint(s.Desired.Limits), Epoch: p.Epoch})
	}
	if !p.Staging.Done && p.Staging.Path == staged.Path && p.Staging.Boot == s.Boot {
		all = append(all, Fact{Name: FactStaged, Path: staged.Path, Epoch: p.Epoch})
	}
	for i := range p.Targets {
		t := &p.Targets[i]
		if !t.Done && s.Record.Target(t.Path) != nil && slices.Contains(s.Have.BoundTargets, t.Path) {
			all = append(all, Fact{Name: FactTargetBound, Path: t.Path, Epoch: p.Epoch})
		}
	}
	return all
}

// isUpAsDesired reports whether the volume is up as it is desired.
func (s *VolumeView) isUpAsDesired() bool {
	p, staged := s.Desired.Publication, s.Record.Staging
	return p != nil && p.Staging != nil && staged != nil && staged.Epoch == p.Epoch && s.isComplete()
}

// limitsUnreported: the desired limits are in force, and the log has not acknowledged a
// report of that from this process.
func (s *VolumeView) limitsUnreported() bool {
	wanted := s.Desired.Limits
	if s.AckedLimits != nil && *s.AckedLimits == wanted {
		return false
	}
	return s.Have.Limits != nil && *s.Have.Limits == wanted || wanted == (fsm.Limits{}) && !s.Have.mayBeLimited && s.Desired.Operation != 0
}

// unreportedDeviceFact is the fact about the image, empty for none. An absent pool proves
// nothing of its images (S12).
func (s *VolumeView) unreportedDeviceFact() string {
	d, have := s.Desired, &s.Have
	complete := have.Exists && have.Size == d.Size && !have.mayBeTorn && (have.Replica == nil || s.Record.Replica != nil && s.Record.Replica.MetadataMade)
	if i := s.Record.ImportDRBD; d.ImportDRBD != nil {
		complete = have.Exists && have.Size == d.Size && i != nil && (i.Replaced || i.Verified && d.ImportDRBD.Paired)
	}
	switch {
	case have.Absent:
	case d.Goal == fsm.GoalCreate && complete && s.Actionable:
		if d.ReplicaState == fsm.ReplicaPresent {
			return "" // the log has it, and waits for the other replica
		}
		return factDeviceCreated
	case d.Goal == fsm.GoalRemove && s.Actionable && !have.Exists && !have.Unfinished && !have.isUp():
		return factDeviceGone
	case d.Goal == fsm.GoalKeep && d.ReplicaState == fsm.ReplicaPresent && !have.Exists:
		return factDeviceMissing
	case d.Goal == fsm.GoalKeep && d.ReplicaState == fsm.ReplicaMissing && have.Exists && have.Size >= d.Size:
		return factDevicePresent
	case d.Goal == fsm.GoalKeep && d.Operation != 0 && have.Exists && have.Size >= d.Size && s.Actionable:
		return factDeviceExpanded
	}
	return ""
}

// unreportedReplicaFact is that the image is what it was before its conversion, or what it is after a restore, or that a replica's device was reverted.
func (s *VolumeView) unreportedReplicaFact() Fact {
	d, h, r := s.Desired.Replication, s.Have.Replica, s.Record.Replica
	switch {
	case d == nil || h == nil || !s.Actionable:
	case (d.Unconvert || d.ConversionRestored && d.Seed && h.Backing.Exists) && r == nil && !h.Backing.Absent && !h.Backing.Active() && !h.InKernel && !h.HasConfig:
		return Fact{Name: factUnconverted}
	case d.RevertTo != "" && r != nil && r.RevertedTo == d.RevertTo:
		return Fact{Name: factReverted, Path: string(d.RevertTo)}
	}
	return Fact{}
}

// FactTornDown is the end of a target, or of the whole volume when the path is empty.
const FactTornDown = "down"

// FactOf is the fact that the pending teardown reports, whatever its sequence number is.
func FactOf(o records.PendingTeardown) Fact {
	return Fact{Name: FactTornDown, Path: o.Target, Epoch: o.Epoch}
}

// FillObservation sets the fact in the observation. Facts about images have no sequence number:
// the state machine takes each only in the one phase of a volume's life that it belongs to.
func (f Fact) FillObservation(ob *fsmpb.Observation, s *VolumeView) {
	size := s.Have.Size
	switch f.Name {
	case factDeviceExpanded:
		ob.Fact = &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: size}}
	case FactLimitsApplied:
		ob.Fact = &fsmpb.Observation_LimitsApplied{LimitsApplied: &fsmpb.LimitsApplied{Limits: s.Desired.Limits.Proto()}}
	case factDeviceCreated:
		ob.Fact = &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: size}}
	case factDeviceGone:
		ob.Fact = &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}
	case factDeviceMissing:
		ob.Fact = &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{Detail: "its image is not in the pool"}}
	case factDevicePresent:
		ob.Fact = &fsmpb.Observation_DevicePresent{DevicePresent: &fsmpb.DevicePresent{SizeBytes: size}}
	case FactStaged:
		ob.Fact = &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: f.Path}}
	case factUnconverted:
		ob.Fact = &fsmpb.Observation_ConversionUndone{ConversionUndone: &fsmpb.ConversionUndone{}}
	case factReverted:
		ob.Fact = &fsmpb.Observation_ReplicaReverted{ReplicaReverted: &fsmpb.ReplicaReverted{SnapshotId: f.Path}}
	case FactTargetBound:
		ob.Fact = &fsmpb.Observation_TargetBound{TargetBound: &fsmpb.TargetBound{TargetPath: f.Path}}
	}
}

// OperationStep names what a volume's operation is doing, for the log and operators.
func OperationStep(d *fsm.DesiredVolume) string {
	switch {
	case d.Goal == fsm.GoalCreate:
		return "create"
	case d.Goal == fsm.GoalRemove:
		return "remove"
	case d.Teardown != nil:
		return "teardown"
	}
	return "change"
}

// FactReplicaObserved is that the log lacks the current observation of the replica.
const FactReplicaObserved = "replica-seen"
