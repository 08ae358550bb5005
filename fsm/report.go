package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applyReport records what a host observed. The report counts for the host and
// boot it names only; each observation counts under the epoch it names (S104), and only if
// its sequence is above the host's last one (S16). An observation that does not count is
// ignored: a later decision superseded it. The outcome lists those that a call on the host
// waits for, as that call must not succeed (S73).
func applyReport(s *State, _ Meta, c *fsmpb.Report) (*fsmpb.Outcome, *Rejection) {
	n, rej := s.nodeOfBoot(c.GetNodeId(), c.GetHostId(), c.GetBootId())
	if rej != nil {
		return nil, rej
	}
	out := &fsmpb.Outcome{}
	for i, o := range c.GetObservations() {
		if rotated := s.applyObservation(n, o); rotated != nil {
			out.KeyRotated = append(out.KeyRotated, rotated)
		}
		if s.level2() && s.isOvertaken(n, o) {
			out.Overtaken = append(out.Overtaken, uint32(i))
		}
	}
	s.serveAgain(n)
	return out, nil
}

// isOvertaken tells whether the observation reports staged, bound or kept, and the state does not want it so.
func (s *State) isOvertaken(n *Node, o *fsmpb.Observation) bool {
	var path string
	switch f := o.GetFact().(type) {
	case *fsmpb.Observation_SnapshotKept:
		return !s.hasKeptCopy(n, SnapshotID(o.GetSnapshotId()))
	case *fsmpb.Observation_Staged:
		path = f.Staged.GetStagingPath()
	case *fsmpb.Observation_TargetBound:
		path = f.TargetBound.GetTargetPath()
	case *fsmpb.Observation_KeyAdded, *fsmpb.Observation_KeyDropped:
	default:
		return false
	}
	v, ok := s.Volume(VolumeID(o.GetVolumeId()))
	if !ok {
		return true
	}
	if o.GetKeyAdded() != nil || o.GetKeyDropped() != nil {
		return isRotationOvertaken(v, o)
	}
	p := reportContext{host: n, epoch: EpochFrom(o.GetEpoch())}.publication(v)
	if p == nil || p.Staging == nil {
		return true
	}
	if o.GetStaged() != nil {
		return !p.Staging.Done || p.Staging.Path != path || p.Staging.Boot != n.Boot
	}
	return p.target(path) == nil || !p.target(path).Done
}

// applyObservation records one observation. It returns what a rotation of a key that is done with it leaves.
func (s *State) applyObservation(n *Node, o *fsmpb.Observation) *fsmpb.KeyRotated {
	if o.GetSnapshotId() != "" {
		s.applySnapshotObservation(n, o)
		return nil
	}
	v, ok := s.Volume(VolumeID(o.GetVolumeId()))
	if !ok {
		return nil
	}
	replica := v.Replica(n.Host)
	if replica == nil || o.GetSequence() != 0 && o.GetSequence() <= replica.Sequence {
		return nil
	}
	ctx := reportContext{state: s, host: n, replica: *replica, epoch: EpochFrom(o.GetEpoch()), sequence: o.GetSequence()}
	updated, changed := ctx.applyFact(v, o)
	if !changed {
		return nil
	}
	if updated.allGone() && !updated.isFailed() {
		s.removeVolume(v.ID)
		return nil
	}
	if ctx.sequence != 0 && updated.Replica(n.Host) != nil {
		updated = updated.withSequence(n.Host, ctx.sequence)
	}
	s.putVolume(updated)
	if o.GetKeyDropped() == nil {
		return nil
	}
	return s.keyRotated(&updated)
}

// reportContext is one fact's context: which host observed it, of which replica, under which epoch.
type reportContext struct {
	state    *State
	host     *Node
	replica  Replica
	epoch    Epoch
	sequence uint64
}

// applyFact is the volume after the fact, and whether the fact changed anything.
func (x reportContext) applyFact(v *Volume, o *fsmpb.Observation) (Volume, bool) {
	switch f := o.GetFact().(type) {
	case *fsmpb.Observation_DeviceCreated:
		return x.deviceCreated(v, f.DeviceCreated)
	case *fsmpb.Observation_DeviceGone:
		return x.deviceGone(v)
	case *fsmpb.Observation_DeviceMissing:
		return x.deviceMissing(v, f.DeviceMissing)
	case *fsmpb.Observation_DevicePresent:
		return x.devicePresent(v)
	case *fsmpb.Observation_Formatted:
		return x.formatted(v, f.Formatted)
	case *fsmpb.Observation_HeaderMade:
		return x.headerMade(v, f.HeaderMade)
	case *fsmpb.Observation_KeyAdded:
		return x.keyAdded(v, f.KeyAdded)
	case *fsmpb.Observation_KeyDropped:
		return x.keyDropped(v, f.KeyDropped)
	case *fsmpb.Observation_Staged:
		return x.staged(v, f.Staged)
	case *fsmpb.Observation_Unstaged:
		return x.unstaged(v)
	case *fsmpb.Observation_StagingInUse:
		return x.stagingInUse(v, f.StagingInUse)
	case *fsmpb.Observation_TargetBound:
		return x.targetBound(v, f.TargetBound)
	case *fsmpb.Observation_TargetGone:
		return x.targetGone(v, f.TargetGone)
	case *fsmpb.Observation_StepFailed:
		return x.stepFailed(v, f.StepFailed)
	case *fsmpb.Observation_Condition:
		return conditionReported(v, f.Condition)
	case *fsmpb.Observation_DeviceGrown:
		return x.deviceGrown(v, f.DeviceGrown)
	case *fsmpb.Observation_LimitsApplied:
		return x.limitsApplied(v, f.LimitsApplied)
	case *fsmpb.Observation_Progress:
		return copyProgress(v, f.Progress)
	case *fsmpb.Observation_Reclaimed:
		return x.reclaimed(v, f.Reclaimed)
	case *fsmpb.Observation_ReplicaSeen:
		return x.replicaObserved(v, f.ReplicaSeen)
	case *fsmpb.Observation_ConversionUndone:
		return x.conversionUndone(v)
	case *fsmpb.Observation_ReplicaReverted:
		return x.replicaReverted(v, f.ReplicaReverted)
	}
	return *v, false
}

// publication is the host's, when the observation names its epoch (S104).
func (x reportContext) publication(v *Volume) *Publication {
	p := v.Publication(x.host.ID)
	if p == nil || p.Host != x.host.Host || p.Epoch != x.epoch && !plantedbug.Is(plantedbug.EpochUnchecked) {
		return nil
	}
	return p
}

// staged: the host staged the volume as it recorded before. A mount must be of a filesystem
// that is recorded as made (S15).
func (x reportContext) staged(v *Volume, f *fsmpb.Staged) (Volume, bool) {
	p := x.publication(v)
	if p == nil || p.Staging == nil || p.Staging.Done || p.Staging.Path != f.GetStagingPath() || p.Staging.Boot != x.host.Boot {
		return *v, false
	}
	if v.Format.Phase != fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED && v.Format.Phase != fsmpb.FormatPhase_FORMAT_PHASE_RAW || !v.Crypt.isMade() {
		return *v, false
	}
	updated, staging := *p, *p.Staging
	staging.Done = true
	updated.Staging = &staging
	restored := v.withHeaderRestored(x.host.Host)
	return restored.withPublication(updated), true
}

// unstaged: the host observed no mount and no open device. It has a sequence number of the
// host, so that it does not end a staging that was begun after it (S16).
func (x reportContext) unstaged(v *Volume) (Volume, bool) {
	if x.sequence == 0 {
		return *v, false
	}
	updated, changed := *v, false
	secondary := x.isSecondary(v)
	if t := v.Teardown(x.host.Host); t != nil && t.Epoch == x.epoch && secondary {
		updated.Teardowns = v.teardownsWithout(x.host.Host)
		x.state.finishOperations(&updated)
		changed = true
	}
	if p := x.publication(v); p != nil && p.Staging != nil {
		down := *p
		down.Staging, down.Targets, down.UsedBy = nil, nil, ""
		updated, changed = updated.withPublication(down), true
	}
	if p := x.publication(v); p != nil && secondary && x.state.PrimaryHost(v) == x.host.Host {
		updated, changed = updated.withReplication(), true
		updated.Replication.relinquishPrimary(x.state.cluster.Index)
	}
	if changed && v.Replicated() && x.state.level2() {
		updated = updated.withReplication()
		x.state.updateReplicaStates(&updated) // earlier observations may prove more now that nobody uses it
	}
	if changed {
		updated = updated.withoutLimits(x.host.Host)
		updated.finishModify()
	}
	if p := x.publication(&updated); p != nil && p.Reclaim && changed {
		updated = x.withReclaimEnded(&updated, p)
	}
	return updated, changed
}

// stagingInUse: something still uses the volume, although its unpublish was requested (S31).
func (x reportContext) stagingInUse(v *Volume, f *fsmpb.StagingInUse) (Volume, bool) {
	p := x.publication(v)
	if p == nil || !p.Ending || p.Staging == nil || p.UsedBy == clip(f.GetDetail()) {
		return *v, false
	}
	updated := *p
	updated.UsedBy = clip(f.GetDetail())
	return v.withPublication(updated), true
}

// isSecondary tells whether the host reported, knowing of the last grant and of its end, that
// its replica is not primary: before that it neither ends a teardown nor relinquishes a grant.
// A host that has attached nothing since it booted is not primary.
func (x reportContext) isSecondary(v *Volume) bool {
	l := v.ActiveReplica(x.host.Host)
	if l == nil || l.Boot != x.host.Boot && l.Observed == (ReplicaObservation{}) {
		return true
	}
	return !l.Observed.Primary && l.Observed.Boot == x.host.Boot && l.Observed.Generation == v.Replication.Generation
}

// targetBound: the host bound the staged volume to the path.
func (x reportContext) targetBound(v *Volume, f *fsmpb.TargetBound) (Volume, bool) {
	p := x.publication(v)
	if p == nil || p.target(f.GetTargetPath()) == nil || p.target(f.GetTargetPath()).Done {
		return *v, false
	}
	updated := *p
	updated.Targets = slices.Clone(p.Targets)
	updated.target(f.GetTargetPath()).Done = true
	return v.withPublication(updated), true
}

// targetGone: the host observed nothing at the path. It has a sequence number, as unstaged (S16).
func (x reportContext) targetGone(v *Volume, f *fsmpb.TargetGone) (Volume, bool) {
	p := x.publication(v)
	if x.sequence == 0 || p == nil || p.target(f.GetTargetPath()) == nil {
		return *v, false
	}
	updated := *p
	updated.Targets = slices.DeleteFunc(slices.Clone(p.Targets), func(t Target) bool { return t.Path == f.GetTargetPath() })
	if len(updated.Targets) == 0 {
		updated.Targets = nil
	}
	return v.withPublication(updated), true
}
