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
	return slices.ContainsFunc(v.ActiveReplicas(), func(l *Replica) bool {
		return l.State == ReplicaPresent && !l.Outdated && l.DiskFailed == 0 && !l.Observed.diskUnusable()
	})
}

// diskUnusable tells whether the kernel has the replica without a disk that is whole.
func (r ReplicaObservation) diskUnusable() bool {
	return r != ReplicaObservation{} && !r.Unconfigured && r.Disk < fsmpb.DiskState_DISK_STATE_OUTDATED
}

// withLeaving records the side that a replica was, in the order in which replicas were given
// up. One whose device was never made has nothing to come back for.
func (v *Volume) withLeaving(r *Replica) Volume {
	updated := v.withReplication()
	if r.State != ReplicaPlanned && r.ReplicaSync != nil {
		updated.replicaOn(r.Host).ReplicaSync = &ReplicaSync{Outdated: r.Outdated, Boot: r.Boot, Attachment: r.Attachment, DiskFailed: r.DiskFailed}
		updated.Replication.Leaving = append(slices.Clone(v.Replication.Leaving), r.Host)
	}
	return updated
}

// withoutLeaving is the volume without what is known of a replica that was given up.
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
	r, ok := v.lastLeaving()
	if !ok {
		return *v
	}
	sync := r.clone()
	sync.Outdated = true
	r.State, r.Undersized = ReplicaPresent, r.Size < v.Size
	updated := v.withReplica(r)
	if r.Undersized && v.running(OpExpand) == nil {
		updated.putOperation(v.regrowOperation())
	}
	updated = updated.withoutLeaving(r.Host)
	updated = updated.withReplication()
	updated.replicaOn(r.Host).ReplicaSync = sync
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
