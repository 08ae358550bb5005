package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// hasGoodCopy tells whether a side of the volume has its content, as far as the log knows:
// its device is there, its peer did not go on without it, and neither host said that the
// kernel gave the disk up. Only then may a replica that was given up be removed (S71).
func (v *Volume) hasGoodCopy() bool {
	if v.Replication == nil {
		return false
	}
	return slices.ContainsFunc(v.ActiveReplicas(), func(l *ReplicaSync) bool {
		r := v.Replica(l.Host)
		return r != nil && r.State == ReplicaPresent && !l.Outdated && l.DiskFailed == 0 && !l.Observed.diskUnusable()
	})
}

// diskUnusable tells whether the kernel has the replica without a disk that is whole.
func (r ReplicaObservation) diskUnusable() bool {
	return r != ReplicaObservation{} && !r.Unconfigured && r.Disk < fsmpb.DiskState_DISK_STATE_OUTDATED
}

// withLeaving records the side that a replica was, in the order in which replicas were given
// up. One whose device was never made has nothing to come back for.
func (v *Volume) withLeaving(r *Replica, l *ReplicaSync) Volume {
	updated := v.withReplication()
	if r.State != ReplicaPlanned && l != nil {
		updated.Replication.Leaving = append(slices.Clone(v.Replication.Leaving), ReplicaSync{Host: l.Host, Outdated: l.Outdated, Boot: l.Boot, Attachment: l.Attachment, DiskFailed: l.DiskFailed})
	}
	return updated
}

// withoutLeaving is the volume without what is known of a replica that was given up.
func (v *Volume) withoutLeaving(host HostID) Volume {
	if v.Replication == nil || !slices.ContainsFunc(v.Replication.Leaving, func(l ReplicaSync) bool { return l.Host == host }) {
		return *v
	}
	updated := v.withReplication()
	leaving := slices.DeleteFunc(slices.Clone(v.Replication.Leaving), func(l ReplicaSync) bool { return l.Host == host })
	if updated.Replication.Leaving = leaving; len(leaving) == 0 {
		updated.Replication.Leaving = nil
	}
	return updated
}

// withLeavingRestored is the volume where a replica that was given up and is not gone is a side of
// it again, as no other side has its content: a host that was lost had it, or a device
// that is missing (S71). Writes may have passed it by, so it is outdated, and goes on only
// by a recorded decision (S8). Its host is asked no more to remove it; one that just did
// reports the device missing. Where the volume grew without it, it is grown before anybody
// uses it: nobody is given less than what was promised (S117).
func (v *Volume) withLeavingRestored(index uint64) Volume {
	if _, ready := v.Phase.(Ready); !ready || v.Replication == nil || v.hasGoodCopy() || len(v.ActiveReplicas()) >= int(v.Replication.ReplicaCount) {
		return *v
	}
	l, ok := v.lastLeaving()
	if !ok {
		return *v
	}
	r := *v.Replica(l.Host)
	r.State, r.Undersized = ReplicaPresent, r.Size < v.Size
	updated := v.withReplica(r)
	if r.Undersized && v.running(OpExpand) == nil {
		updated.putOperation(v.regrowOperation())
	}
	updated = updated.withoutLeaving(l.Host)
	updated = updated.withReplication()
	l.Outdated = true
	updated.Replication.Syncs = append(updated.Replication.Syncs, l)
	slices.SortFunc(updated.Replication.Syncs, compareReplicaSyncs)
	updated.Replication.Generation = index
	return updated
}

// regrowOperation is the operation that brings a replica that was taken back to the volume's size.
// It has the number of the volume's making, which is over, and no time: one entry may begin
// it for many, and it is read before it is written (S118).
func (v *Volume) regrowOperation() *Operation {
	return &Operation{ID: OperationID(v.Created.Index), Kind: OpExpand, State: OpRunning}
}

// lastLeaving is the side that the replica was that was given up last; one whose peer had
// gone on without it before only where there is no other.
func (v *Volume) lastLeaving() (ReplicaSync, bool) {
	leaving := v.leavingSyncs()
	for _, l := range slices.Backward(leaving) {
		if !l.Outdated {
			return l, true
		}
	}
	if n := len(leaving); n > 0 {
		return leaving[n-1], true
	}
	return ReplicaSync{}, false
}

// leavingSyncs are the sides that leaving replicas were. Of one that was given up at
// feature level 1 only the host is known, and that its device was made.
func (v *Volume) leavingSyncs() (syncs []ReplicaSync) {
	known := v.Replication.Leaving
	for i := range v.Replicas {
		r := &v.Replicas[i]
		recorded := slices.ContainsFunc(known, func(l ReplicaSync) bool { return l.Host == r.Host })
		if r.State == ReplicaLeaving && r.Size > 0 && !recorded {
			syncs = append(syncs, ReplicaSync{Host: r.Host, Outdated: true})
		}
	}
	return append(syncs, known...)
}
