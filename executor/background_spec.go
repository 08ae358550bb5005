package executor

import (
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// situation is all that is known of a volume between two calls.
type volumeView struct {
	volume fsm.VolumeID
	boot   string
	// desired is the log's, nil when it is not known.
	desired *fsm.DesiredVolume
	// fresh: the wish may be acted on. It was read in this session, from a controller
	// that applied all that this host acted on (S14), and the host is adopted (S1).
	actionable bool
	// incarnationID is of whoever said the wish (S1).
	incarnationID []byte
	record        *volumeRecord
	have          observedVolume
	// ackedLimits are those that the log took for those in force, from this process.
	ackedLimits *fsm.Limits
}

// backgroundSpec says what to do without being called: create and remove as the log
// says, and take down what is not to be up. It never brings anything up: that
// takes a grant, which only a call gets (S2).
func backgroundSpec(s *volumeView) volumeSpec {
	want := volumeSpec{volume: s.volume}
	if !s.actionable || s.desired == nil {
		return want
	}
	want.goal, want.size = s.desired.Goal, s.desired.Size
	want.source, want.sourceSize = s.desired.Source, s.desired.SourceSize
	want.expanding = s.desired.Goal == fsm.GoalKeep && s.desired.Operation != 0
	if s.isUpAsDesired() {
		want.limits = &s.desired.Limits
	}
	if want.goal != fsm.GoalRemove {
		want.takeDown = s.mustTakeDown()
		want.dropTargets = s.targetsToDrop()
	}
	return want
}

// mustTakeDown: the publication ended or is a newer one (S3), or the bring-up was
// interrupted. What is complete and wanted stays as it is.
func (s *volumeView) mustTakeDown() bool {
	staged, p := s.record.Staging, s.desired.Publication
	switch {
	case staged == nil && s.mayBePrimary():
		return s.have.isMounted()
	case staged == nil:
		return s.have.isUp() // nothing was given out, so nothing may be up
	case p == nil || p.Staging == nil || staged.Epoch != p.Epoch:
		return true // ended, perhaps revoked while this host was away (S31)
	case p.Ending:
		return true // its end was asked for (S31)
	}
	return !s.isComplete() && len(s.have.boundTargets) == 0 && !s.wasUpThisBoot()
}

// mayBePrimary: a replica is primary before its volume is staged, for a publication.
func (s *volumeView) mayBePrimary() bool {
	w := s.desired
	return w.Replication != nil && w.Replication.Primary && w.Publication != nil && w.Publication.Staging == nil && w.Teardown == nil
}

// wasUpThisBoot: the log knows that it was up in this boot. What is gone since then was
// taken away by somebody else: that is an illness to be told, and to stage again or to
// unstage heals it.
func (s *volumeView) wasUpThisBoot() bool {
	p := s.desired.Publication
	return p.Staging.Done && p.Staging.Boot == s.boot && p.Staging.Path == s.record.Staging.Path
}

// isComplete tells whether the volume is up as its record says.
func (s *volumeView) isComplete() bool {
	staged := s.record.Staging
	return staged != nil && s.have.Active() && (staged.Block || s.have.staged)
}

// targetsToDrop lists targets that the log does not want, or whose binding was interrupted.
func (s *volumeView) targetsToDrop() []string {
	var drop []string
	for i := range s.record.Targets {
		t := &s.record.Targets[i]
		if !slices.Contains(s.have.boundTargets, t.Path) || desiredTarget(s.desired, t.Path) == nil {
			drop = append(drop, t.Path)
		}
	}
	return drop
}

func desiredTarget(w *fsm.DesiredVolume, path string) *fsm.Target {
	if w == nil || w.Publication == nil {
		return nil
	}
	for i := range w.Publication.Targets {
		if w.Publication.Targets[i].Path == path {
			return &w.Publication.Targets[i]
		}
	}
	return nil
}

// missedTeardowns lists the tear-downs that the log waits for and that nothing owes yet: of
// what was never up here, or is gone since the host was started again. They are
// observed, not remembered (S16).
func missedTeardowns(s *volumeView) []pendingTeardown {
	w := s.desired
	if !s.actionable || w == nil {
		return nil
	}
	staged, isDown := s.record.Staging, !s.have.isUp() && !s.have.ioSuspended()
	var missing []pendingTeardown
	if w.Teardown != nil && (staged == nil && isDown || staged != nil && staged.Epoch.Compare(w.Teardown.Epoch) > 0) {
		missing = append(missing, pendingTeardown{Epoch: w.Teardown.Epoch})
	}
	p := w.Publication
	switch {
	case p == nil:
	case p.Staging != nil && staged == nil && isDown:
		missing = append(missing, pendingTeardown{Epoch: p.Epoch})
	default:
		for i := range p.Targets {
			path := p.Targets[i].Path
			if s.record.target(path) == nil && !slices.Contains(s.have.boundTargets, path) {
				missing = append(missing, pendingTeardown{Epoch: p.Epoch, Target: path})
			}
		}
	}
	return missing
}

// fact is one thing that the log does not know yet. It is one case of an
// Observation; its name is what a repetition is recognised by.
type fact struct {
	name  string
	path  string
	epoch fsm.Epoch
}

const (
	factDeviceCreated  = "created"
	factDeviceGone     = "gone"
	factDeviceMissing  = "missing"
	factDevicePresent  = "present"
	factStaged         = "staged"
	factTargetBound    = "bound"
	factDeviceExpanded = "grown"
	factLimitsApplied  = "limited"
	factCondition      = "condition"
	factStepFailed     = "failed"
	factStagingInUse   = "in-use"
)

// news lists what was observed and is not what the log believes. A report that
// says nothing new is not made.
func unreportedFacts(s *volumeView) []fact {
	if s.desired == nil {
		return nil
	}
	var all []fact
	if name := s.unreportedDeviceFact(); name != "" {
		all = append(all, fact{name: name})
	}
	if !s.isUpAsDesired() {
		return all
	}
	p, staged := s.desired.Publication, s.record.Staging
	if s.limitsUnreported() {
		all = append(all, fact{name: factLimitsApplied, path: fmt.Sprint(s.desired.Limits), epoch: p.Epoch})
	}
	if !p.Staging.Done && p.Staging.Path == staged.Path && p.Staging.Boot == s.boot {
		all = append(all, fact{name: factStaged, path: staged.Path, epoch: p.Epoch})
	}
	for i := range p.Targets {
		t := &p.Targets[i]
		if !t.Done && s.record.target(t.Path) != nil && slices.Contains(s.have.boundTargets, t.Path) {
			all = append(all, fact{name: factTargetBound, path: t.Path, epoch: p.Epoch})
		}
	}
	return all
}

// isUpAsDesired tells whether the volume is up as the log wants it.
func (s *volumeView) isUpAsDesired() bool {
	p, staged := s.desired.Publication, s.record.Staging
	return p != nil && p.Staging != nil && staged != nil && staged.Epoch == p.Epoch && s.isComplete()
}

// limitsUnreported: the limits that the log wants are in force, and it has not heard so from
// this process.
func (s *volumeView) limitsUnreported() bool {
	wanted := s.desired.Limits
	if s.ackedLimits != nil && *s.ackedLimits == wanted {
		return false
	}
	return s.have.limits != nil && *s.have.limits == wanted || wanted == (fsm.Limits{}) && !s.have.mayBeLimited && s.desired.Operation != 0
}

// unreportedDeviceFact: an absent pool says nothing of its devices (S12).
func (s *volumeView) unreportedDeviceFact() string {
	w, have := s.desired, &s.have
	complete := have.Exists && have.Size == w.Size && !have.mayBeTorn && (have.replica == nil || s.record.Replica != nil && s.record.Replica.MetadataMade)
	switch {
	case have.Absent:
	case w.Goal == fsm.GoalCreate && complete && s.actionable:
		if w.ReplicaState == fsm.ReplicaPresent {
			return "" // the log knows, and waits for the other replica
		}
		return factDeviceCreated
	case w.Goal == fsm.GoalRemove && s.actionable && !have.Exists && !have.Unfinished && !have.isUp():
		return factDeviceGone
	case w.Goal == fsm.GoalKeep && w.ReplicaState == fsm.ReplicaPresent && !have.Exists:
		return factDeviceMissing
	case w.Goal == fsm.GoalKeep && w.ReplicaState == fsm.ReplicaMissing && have.Exists && have.Size >= w.Size:
		return factDevicePresent
	case w.Goal == fsm.GoalKeep && w.Operation != 0 && have.Exists && have.Size >= w.Size && s.actionable:
		return factDeviceExpanded
	}
	return ""
}
