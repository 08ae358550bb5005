package fsm

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ReplicationCondition says what is wrong with a replicated volume's replicas, as the
// log and its hosts' last words have it; the zero Condition when each is up to date.
// Whether hosts can be reached is not part of it.
func (s *State) ReplicationCondition(v *Volume) Condition {
	r := v.Replication
	if _, ready := v.Phase.(Ready); !ready || r == nil {
		return Condition{}
	}
	for _, say := range []func(*Volume, *Leg) string{frozenIO, s.legTrouble, outOfSync} {
		for i := range r.Legs {
			if message := say(v, &r.Legs[i]); message != "" {
				return Condition{Abnormal: true, Message: clip(message)}
			}
		}
	}
	if n := len(r.Legs); n < int(r.Wanted) {
		return Condition{Abnormal: true, Message: fmt.Sprintf("%d of %d replicas are left", n, r.Wanted)}
	}
	return Condition{}
}

// on is the node of a leg, for people.
func (v *Volume) on(l *Leg) string {
	if r := v.Replica(l.Host); r != nil {
		return string(r.Node)
	}
	return string(l.Host)
}

// frozenIO says that a primary's I/O is frozen.
func frozenIO(v *Volume, l *Leg) string {
	switch {
	case !l.Seen.Suspended:
		return ""
	case l.Outdated:
		return fmt.Sprintf("I/O of primary %s is frozen: its peer went on without it", v.on(l))
	}
	return fmt.Sprintf("I/O of primary %s is frozen: it waits for a verdict on its peer", v.on(l))
}

// legTrouble says why a replica is not up to date.
func (s *State) legTrouble(v *Volume, l *Leg) string {
	x := &l.Seen
	switch {
	case l.UpToDate:
		return ""
	case x.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET:
		return fmt.Sprintf("the replica on node %s is being synchronised, %d %%", v.on(l), x.Percent)
	case v.Replica(l.Host) != nil && v.Replica(l.Host).State == ReplicaPlanned:
		return fmt.Sprintf("the replica on node %s is being made", v.on(l))
	case l.Outdated && l.NotKept != "":
		return fmt.Sprintf("the replica on node %s is outdated and waits: %s", v.on(l), l.NotKept)
	case l.Outdated:
		return fmt.Sprintf("the replica on node %s is outdated: its peer went on without it", v.on(l))
	case l.DiskFailed != 0:
		return fmt.Sprintf("the disk of the replica on node %s was given up by its kernel: all of it is copied again", v.on(l))
	case *x == (ReplicaSeen{}) || x.Down:
		return fmt.Sprintf("the replica on node %s is not attached", v.on(l))
	case x.Disk < fsmpb.DiskState_DISK_STATE_UP_TO_DATE:
		return fmt.Sprintf("the disk of the replica on node %s is %s", v.on(l), diskName(x.Disk))
	}
	return fmt.Sprintf("the replica on node %s is not known to be up to date: it waits for its peer", v.on(l))
}

// outOfSync says what a verification found.
func outOfSync(v *Volume, l *Leg) string {
	if l.Seen.OutOfSync == 0 || l.Seen.Connection != fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED {
		return ""
	}
	return fmt.Sprintf("node %s found %d bytes out of sync with the other replica", v.on(l), l.Seen.OutOfSync)
}
