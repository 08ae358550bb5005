package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// hasGoodCopy tells whether an active replica has the content, as far as recorded: its device
// is present, it is not outdated, and its disk did not fail. Only then may the device of a
// leaving replica be removed (S71).
func (v *Volume) hasGoodCopy() bool {
	if v.Replication == nil {
		return v.Unconverted != nil // what is leaving was never whole
	}
	return slices.ContainsFunc(v.ActiveReplicas(), func(l *Replica) bool {
		return l.State == ReplicaPresent && !l.Outdated && l.DiskFailed == 0 && !l.Observed.diskUnusable()
	})
}

// diskUnusable tells whether the replica is configured in the kernel without a consistent disk.
func (r ReplicaObservation) diskUnusable() bool {
	return r != ReplicaObservation{} && !r.Unconfigured && r.Disk < fsmpb.DiskState_DISK_STATE_OUTDATED
}

// withLeaving keeps the sync state of a replica that is being removed, last in the order of
// Leaving. Nothing is kept of one whose device was never created.
func (v *Volume) withLeaving(r *Replica) Volume {
	updated := v.withReplication()
	if r.State != ReplicaPlanned && r.ReplicaSync != nil {
		updated.replicaOn(r.Host).ReplicaSync = &ReplicaSync{Outdated: r.Outdated, Boot: r.Boot, Attachment: r.Attachment, DiskFailed: r.DiskFailed, KeyGeneration: v.keyGenerationOn(r), Synced: r.Synced, Partial: r.Partial, CutIndex: r.CutIndex, Copied: r.Copied}
		updated.Replication.Leaving = append(slices.Clone(v.Replication.Leaving), r.Host)
	}
	return updated
}

// withoutLeaving drops the sync state of a replica that was being removed.
func (v *Volume) withoutLeaving(host HostID) Volume {
	if v.Replication == nil || !slices.Contains(v.Replication.Leaving, host) {
		return *v
	}
	updated := v.withReplication()
	if r := updated.replicaOn(host); r != nil {
		r.ReplicaSync = nil
	}
	leaving := slices.DeleteFunc(slices.Clone(v.Replication.Leaving), func(h HostID) bool { return h == host })
	if updated.Replication.Leaving = leaving; len(leaving) == 0 {
		updated.Replication.Leaving = nil
	}
	return updated
}

// withLeavingRestored is the volume where a leaving replica takes part in the replication
// again, as no active one has the content: its host was lost, or its device is missing (S71).
// One that is being added at its site makes room for it (S32).
func (s *State) withLeavingRestored(v *Volume, index uint64) Volume {
	r, ok := v.restorable()
	if !ok {
		return *v
	}
	rival := s.rivalAtSite(v, &r)
	if rival != nil && (rival.mayHaveContent() || s.usesReplica(v, rival)) {
		return *v // an operator chooses between the two
	}
	return s.restoreLeaving(v, &r, rival, index)
}

// restorable is the leaving replica that is to take part again, if one is.
func (v *Volume) restorable() (Replica, bool) {
	if _, ready := v.Phase.(Ready); !ready || v.Replication == nil || v.hasGoodCopy() {
		return Replica{}, false
	}
	return v.lastLeaving()
}

// rivalAtSite is the active replica at the site of one that is leaving, where a volume has one replica at
// each of two sites.
func (s *State) rivalAtSite(v *Volume, leaving *Replica) *Replica {
	for _, active := range v.ActiveReplicas() {
		if len(v.Sites) > 0 && s.siteOf(active.Node) == s.siteOf(leaving.Node) {
			return active
		}
	}
	return nil
}

// mayHaveContent tells whether a replica was ever, or may have been, a copy that an operator would go on with.
func (r *Replica) mayHaveContent() bool {
	return r.State != ReplicaPlanned && !r.Observed.diskUnusable()
}

// usesReplica tells whether a replica's host uses the volume, or has not ended its use of it.
func (s *State) usesReplica(v *Volume, r *Replica) bool {
	return v.Publication(r.Node) != nil || v.Teardown(r.Host) != nil || s.mayBePrimary(v, r.Host)
}

// restoreLeaving has a leaving replica take part again, in the place of the rival if there is one.
// It may miss writes, so it is outdated, and is promoted only by a decision to force
// it (S8). Its host does not remove it any more; one that just did reports the device
// missing. If the volume was expanded meanwhile, the replica is expanded before it is used:
// nobody gets less than the promised size (S117).
func (s *State) restoreLeaving(v *Volume, r, rival *Replica, index uint64) Volume {
	updated := *v
	if rival != nil {
		updated = s.withReplicaLeaving(v, rival, index)
	}
	if len(updated.ActiveReplicas()) >= int(v.Replication.ReplicaCount) {
		return *v
	}
	restored, sync := *r, r.clone()
	sync.Outdated = true
	restored.State, restored.Undersized = ReplicaPresent, r.Size < v.Size
	updated = updated.withReplica(restored)
	if restored.Undersized && v.running(OpExpand) == nil {
		updated.putOperation(v.regrowOperation())
	}
	updated = updated.withoutLeaving(r.Host)
	updated = updated.withReplication()
	updated.replicaOn(r.Host).ReplicaSync = sync
	updated.Replication.Generation = index
	return updated
}

// withReplicaLeaving ends the part that a replica takes in the replication; its host has to remove it.
func (s *State) withReplicaLeaving(v *Volume, r *Replica, index uint64) Volume {
	updated := v.withoutReplicaSync(r.Host, index)
	if s.level2() {
		updated = updated.withLeaving(r)
	}
	leaving := *r
	leaving.State = ReplicaLeaving
	return updated.withReplica(leaving)
}

// regrowOperation is the operation that expands a restored replica to the volume's size. Its id
// is that of the volume's create, which is over, and it has no times: one entry may begin such
// operations for many volumes, and a read must see the one that is written later (S118).
func (v *Volume) regrowOperation() *Operation {
	return &Operation{ID: OperationID(v.Created.Index), Kind: OpExpand, State: OpRunning}
}

// lastLeaving is the leaving replica whose removal began last; an outdated one only where
// there is no other.
func (v *Volume) lastLeaving() (Replica, bool) {
	leaving := v.leavingReplicas()
	for _, l := range slices.Backward(leaving) {
		if !l.Outdated {
			return l, true
		}
	}
	if n := len(leaving); n > 0 {
		return leaving[n-1], true
	}
	return Replica{}, false
}

// leavingReplicas are those that are being removed and could take part again. Of one whose
// removal began at feature level 1 only the host is known, and that its device was made.
func (v *Volume) leavingReplicas() (leaving []Replica) {
	for _, r := range v.Replicas {
		if r.State == ReplicaLeaving && r.Size > 0 && !slices.Contains(v.Replication.Leaving, r.Host) {
			r.ReplicaSync = &ReplicaSync{Outdated: true}
			leaving = append(leaving, r)
		}
	}
	for _, r := range v.recordedLeaving() {
		leaving = append(leaving, *r)
	}
	return leaving
}
