package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// hasCopy tells whether a side of the volume has its content, as far as the log knows:
// its device is there, its peer did not go on without it, and neither host said that the
// kernel gave the disk up. Only then may a replica that was given up be removed (S71).
func (v *Volume) hasCopy() bool {
	if v.Replication == nil {
		return false
	}
	return slices.ContainsFunc(v.Replication.Legs, func(l Leg) bool {
		r := v.Replica(l.Host)
		return r != nil && r.State == ReplicaPresent && !l.Outdated && l.DiskFailed == 0 && !l.Seen.gaveUp()
	})
}

// gaveUp tells whether the kernel has the replica without a disk that is whole.
func (r ReplicaSeen) gaveUp() bool {
	return r != ReplicaSeen{} && !r.Down && r.Disk < fsmpb.DiskState_DISK_STATE_OUTDATED
}

// withLeft records the side that a replica was, in the order in which replicas were given
// up. One whose device was never made has nothing to come back for.
func (v *Volume) withLeft(r *Replica, l *Leg) Volume {
	now := v.withReplication()
	if r.State != ReplicaPlanned && l != nil {
		now.Replication.Left = append(slices.Clone(v.Replication.Left), Leg{Host: l.Host, Outdated: l.Outdated, Boot: l.Boot, Attach: l.Attach, DiskFailed: l.DiskFailed})
	}
	return now
}

// withoutLeft is the volume without what is known of a replica that was given up.
func (v *Volume) withoutLeft(host HostID) Volume {
	if v.Replication == nil || !slices.ContainsFunc(v.Replication.Left, func(l Leg) bool { return l.Host == host }) {
		return *v
	}
	now := v.withReplication()
	left := slices.DeleteFunc(slices.Clone(v.Replication.Left), func(l Leg) bool { return l.Host == host })
	if now.Replication.Left = left; len(left) == 0 {
		now.Replication.Left = nil
	}
	return now
}

// takenBack is the volume where a replica that was given up and is not gone is a side of
// it again, as no other side has its content: a host that was lost had it, or a device
// that is missing (S71). Writes may have passed it by, so it is outdated, and goes on only
// by a recorded decision (S8). Its host is asked no more to remove it; one that just did
// reports the device missing. Where the volume grew without it, it is grown before anybody
// uses it: nobody is given less than what was promised (S117).
func (v *Volume) takenBack(index uint64) Volume {
	if _, ready := v.Phase.(Ready); !ready || v.Replication == nil || v.hasCopy() || len(v.Replication.Legs) >= int(v.Replication.Wanted) {
		return *v
	}
	l, ok := v.leftLast()
	if !ok {
		return *v
	}
	r := *v.Replica(l.Host)
	r.State, r.Short = ReplicaPresent, r.Size < v.Size
	now := v.withReplica(r)
	if r.Short && v.running(OpExpand) == nil {
		now.putOperation(v.regrowth())
	}
	now = now.withoutLeft(l.Host)
	now = now.withReplication()
	l.Outdated = true
	now.Replication.Legs = append(now.Replication.Legs, l)
	slices.SortFunc(now.Replication.Legs, compareLegs)
	now.Replication.Generation = index
	return now
}

// regrowth is the operation that brings a replica that was taken back to the volume's size.
// It has the number of the volume's making, which is over, and no time: one entry may begin
// it for many, and it is read before it is written (S118).
func (v *Volume) regrowth() *Operation {
	return &Operation{ID: OperationID(v.Created.Index), Kind: OpExpand, State: OpRunning}
}

// leftLast is the side that the replica was that was given up last; one whose peer had
// gone on without it before only where there is no other.
func (v *Volume) leftLast() (Leg, bool) {
	left := v.leavingLegs()
	for _, l := range slices.Backward(left) {
		if !l.Outdated {
			return l, true
		}
	}
	if n := len(left); n > 0 {
		return left[n-1], true
	}
	return Leg{}, false
}

// leavingLegs are the sides that leaving replicas were. Of one that was given up at
// feature level 1 only the host is known, and that its device was made.
func (v *Volume) leavingLegs() (legs []Leg) {
	known := v.Replication.Left
	for i := range v.Replicas {
		r := &v.Replicas[i]
		recorded := slices.ContainsFunc(known, func(l Leg) bool { return l.Host == r.Host })
		if r.State == ReplicaLeaving && r.Size > 0 && !recorded {
			legs = append(legs, Leg{Host: r.Host, Outdated: true})
		}
	}
	return append(legs, known...)
}
