package plan

import (
	"slices"

	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// VolumeView is all that is known of a volume between two calls: observed, recorded and desired.
type VolumeView struct {
	Volume fsm.VolumeID
	Boot   string
	// Desired is nil when the session has not delivered it, or the state machine does not know the volume. DesiredAt is
	// the epoch of the update that delivered it.
	Desired   *fsm.DesiredVolume
	DesiredAt fsm.Epoch
	// Actionable: Desired may be acted on. It was read in this session, from a controller that
	// has applied all that this host acted on (S14), and the host is adopted (S1).
	Actionable bool
	// IncarnationID is that of the incarnation that Desired is from (S1).
	IncarnationID []byte
	Record        *records.VolumeRecord
	Have          ObservedVolume
	// AckedLimits are those that this process reported to be in force and the log acknowledged.
	AckedLimits *fsm.Limits
}

// BackgroundSpec is what to do without a call: create and remove as desired, and take down
// what may not stay up. It never brings anything up: that needs a grant, which only a call
// gets (S2).
func BackgroundSpec(s *VolumeView) VolumeSpec {
	want := VolumeSpec{Volume: s.Volume}
	if s.Desired == nil && s.Have.Exists && plantedbug.Is(plantedbug.RemoveOnAbsence) {
		want.Goal = fsm.GoalRemove
	}
	if !s.Actionable || s.Desired == nil {
		return want
	}
	want.Goal, want.Size = s.Desired.Goal, s.Desired.Size
	want.Source, want.SourceSize = s.Desired.Source, s.Desired.SourceSize
	want.Import, want.ImportDRBD = s.Desired.ImportDevice, s.Desired.ImportDRBD
	want.Replicated = s.Desired.Replication != nil
	want.Expanding = s.Desired.Goal == fsm.GoalKeep && s.Desired.Operation != 0 && !Converts(s.Desired)
	if s.isUpAsDesired() {
		want.Limits = &s.Desired.Limits
	}
	if want.Goal != fsm.GoalRemove {
		want.TakeDown = s.mustTakeDown()
		want.DropTargets = s.targetsToDrop()
	}
	return want
}

// Converts reports whether the image is being converted to a replica's, or back: only that changes its size.
func Converts(d *fsm.DesiredVolume) bool {
	return d.Replication != nil && (d.Replication.Converting || d.Replication.Unconvert)
}

// mustTakeDown: the publication ended or was replaced by a newer one (S3), or the bring-up was
// interrupted. What is complete and desired stays as it is.
func (s *VolumeView) mustTakeDown() bool {
	staged, p := s.Record.Staging, s.Desired.Publication
	switch {
	case staged == nil && s.mayBePrimary():
		return s.Have.isMounted()
	case staged == nil:
		return s.Have.isUp() // nothing is recorded as handed out, so nothing may be up
	case p == nil || p.Staging == nil || staged.Epoch != p.Epoch:
		return true // it ended, perhaps revoked while this host was away (S31)
	case p.Ending:
		return true // its end was asked for (S31)
	}
	return !s.isComplete() && len(s.Have.BoundTargets) == 0 && !s.wasUpThisBoot()
}

// mayBePrimary: for a publication, a replica becomes primary before its volume is staged.
func (s *VolumeView) mayBePrimary() bool {
	d := s.Desired
	return d.Replication != nil && d.Replication.Primary && d.Publication != nil && d.Publication.Staging == nil && d.Teardown == nil
}

// wasUpThisBoot: the log has it as staged in this boot. Mounts that are gone since then were
// ended by somebody else: that is reported as an abnormal condition, which staging again or
// unstaging ends.
func (s *VolumeView) wasUpThisBoot() bool {
	p := s.Desired.Publication
	return p.Staging.Done && p.Staging.Boot == s.Boot && p.Staging.Path == s.Record.Staging.Path
}

// isComplete reports whether the volume is up as its record says.
func (s *VolumeView) isComplete() bool {
	staged := s.Record.Staging
	return staged != nil && s.Have.Active() && (staged.Block || s.Have.Staged)
}

// targetsToDrop lists the targets that are not desired, or whose bind was interrupted.
func (s *VolumeView) targetsToDrop() []string {
	var drop []string
	for i := range s.Record.Targets {
		t := &s.Record.Targets[i]
		if !slices.Contains(s.Have.BoundTargets, t.Path) || desiredTarget(s.Desired, t.Path) == nil {
			drop = append(drop, t.Path)
		}
	}
	return drop
}

func desiredTarget(d *fsm.DesiredVolume, path string) *fsm.Target {
	if d == nil || d.Publication == nil {
		return nil
	}
	for i := range d.Publication.Targets {
		if d.Publication.Targets[i].Path == path {
			return &d.Publication.Targets[i]
		}
	}
	return nil
}
