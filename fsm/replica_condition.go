package fsm

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ReplicationCondition says what is wrong with a replicated volume's replicas, as recorded
// and as their hosts last reported; the zero Condition when each is up to date. Whether
// hosts are reachable is not part of it.
func (s *State) ReplicationCondition(v *Volume) Condition {
	r := v.Replication
	if _, ready := v.Phase.(Ready); !ready || r == nil {
		return Condition{}
	}
	if message := s.relationCondition(v); message != "" {
		return Condition{Abnormal: true, Message: clip(message)}
	}
	active := v.ActiveReplicas()
	for _, describe := range []func(*Volume, *Replica) string{frozenIOReason, s.notUpToDateReason, outOfSyncReason} {
		for _, l := range active {
			if message := describe(v, l); message != "" {
				return Condition{Abnormal: true, Message: clip(message)}
			}
		}
	}
	if n := len(active); n < int(r.ReplicaCount) {
		return Condition{Abnormal: true, Message: fmt.Sprintf("%d of %d replicas are left", n, r.ReplicaCount)}
	}
	return Condition{}
}

// nodeNameOf is the node of a replica, for people; the host when the replica is gone.
func (v *Volume) nodeNameOf(l *Replica) string {
	if l.State != ReplicaGone {
		return string(l.Node)
	}
	return string(l.Host)
}

// frozenIOReason says that a primary's I/O is frozen.
func frozenIOReason(v *Volume, l *Replica) string {
	switch {
	case !l.Observed.Suspended:
		return ""
	case l.Outdated:
		return fmt.Sprintf("I/O of primary %s is frozen: its peer went on without it", v.nodeNameOf(l))
	}
	return fmt.Sprintf("I/O of primary %s is frozen: it waits for a verdict on its peer", v.nodeNameOf(l))
}

// notUpToDateReason says why a replica is not up to date.
func (s *State) notUpToDateReason(v *Volume, l *Replica) string {
	x := &l.Observed
	switch {
	case l.UpToDate:
		return ""
	case x.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET:
		return fmt.Sprintf("the replica on node %s is being synchronised, %d %%", v.nodeNameOf(l), x.SyncPercent)
	case l.State == ReplicaPlanned:
		return fmt.Sprintf("the replica on node %s is being made", v.nodeNameOf(l))
	case l.Outdated && l.NotKeptReason != "":
		return fmt.Sprintf("the replica on node %s is outdated and waits: %s", v.nodeNameOf(l), l.NotKeptReason)
	case l.Outdated:
		return fmt.Sprintf("the replica on node %s is outdated: its peer went on without it", v.nodeNameOf(l))
	case l.DiskFailed != 0 && !v.hasPeerToCopy(l):
		return fmt.Sprintf("the disk of the replica on node %s was given up by its kernel", v.nodeNameOf(l))
	case l.DiskFailed != 0:
		return fmt.Sprintf("the disk of the replica on node %s was given up by its kernel: all of it is copied again", v.nodeNameOf(l))
	case *x == (ReplicaObservation{}) || x.Unconfigured:
		return fmt.Sprintf("the replica on node %s is not attached", v.nodeNameOf(l))
	case x.Disk < fsmpb.DiskState_DISK_STATE_UP_TO_DATE:
		return fmt.Sprintf("the disk of the replica on node %s is %s", v.nodeNameOf(l), diskName(x.Disk))
	}
	return fmt.Sprintf("the replica on node %s is not known to be up to date: it waits for its peer", v.nodeNameOf(l))
}

// hasPeerToCopy tells whether another replica is left of which a failed disk may be copied.
func (v *Volume) hasPeerToCopy(l *Replica) bool {
	peer := v.PeerReplica(l.Host)
	return peer != nil && !peer.Outdated && peer.DiskFailed == 0
}

// outOfSyncReason says what a verification found.
func outOfSyncReason(v *Volume, l *Replica) string {
	if l.Observed.OutOfSync == 0 || l.Observed.Connection != fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED {
		return ""
	}
	return fmt.Sprintf("node %s found %d bytes out of sync with the other replica", v.nodeNameOf(l), l.Observed.OutOfSync)
}

// relationCondition says what of a volume's replication between sites needs somebody: a site that lost the role and
// may still acknowledge writes (S45), and content that was given up by force (S48).
func (s *State) relationCondition(v *Volume) string {
	relation := s.RelationOf(v)
	if relation == nil {
		return ""
	}
	for _, o := range relation.Ousted {
		if s.owesTeardownAt(v, o.Site) {
			return fmt.Sprintf("site %s was ousted and may still acknowledge writes, which are lost", o.Site)
		}
	}
	if m := v.RelationMember; m != nil && m.Apart {
		return fmt.Sprintf("what site %s has was given up by force: it stays apart until a resync with force there", m.ApartAt)
	}
	return ""
}
