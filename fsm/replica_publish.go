package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// FormerPrimaryIsolated tells whether no unreachable host whose publication was revoked can
// write to the volume any more: the other replica has disconnected it and has every write
// (S8). A ControllerUnpublish from an unreachable host waits for it.
func (s *State) FormerPrimaryIsolated(id VolumeID) bool {
	v, ok := s.Volume(id)
	if !ok || v.Replication == nil {
		return true
	}
	for _, t := range v.Teardowns {
		former, survivor := v.ActiveReplica(t.Host), v.PeerReplica(t.Host)
		if former == nil || former.Outdated || survivor == nil || s.replicaReachable(former) {
			continue
		}
		if !s.isolatedBy(v, survivor) {
			return false
		}
	}
	return true
}

func (s *State) isolatedBy(v *Volume, survivor *Replica) bool {
	n, ok := s.nodeOfReplica(survivor)
	x := survivor.Observed
	if !ok || !survivor.isOfAttachment(n, x) || x.Generation != v.Replication.Generation || x.Connection != fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE {
		return false
	}
	a := &promotionCheck{s: s, v: v, n: n, r: v.Replication, own: survivor, peer: v.PeerReplica(survivor.Host), observed: x}
	return a.checkSolo() == nil || a.mayForce()
}

// PromotionDone tells whether the node's host reported that it is primary under the
// publication that it has now.
func (s *State) PromotionDone(v *Volume, node NodeID) bool {
	p := v.Publication(node)
	switch {
	case p == nil || v.Replication == nil:
		return false
	case p.Staging != nil:
		return true // from then on only staging asks for another promotion
	case v.Replication.Primary == nil:
		return false
	}
	g := v.Replication.Primary
	return g.Host == p.Host && g.Epoch == p.Epoch && g.Done
}

// checkReplicaPublishable says why a replicated volume cannot be published to a node.
func (v *Volume) checkReplicaPublishable(n *Node) *Rejection {
	if v.Replication == nil {
		return nil
	}
	switch l := v.ActiveReplica(n.Host); {
	case l == nil:
		return Reject(Precondition, "publish volume %s: the replica on node %s was given up", v.ID, n.ID)
	case v.Replica(n.Host).Undersized:
		return Reject(Busy, "publish volume %s: the replica on node %s has %d of its %d bytes, and is grown first", v.ID, n.ID, v.Replica(n.Host).Size, v.Size)
	case v.isReverting():
		return Reject(Busy, "publish volume %s: its replica on host %s is being reverted to kept copy %s", v.ID, v.Replication.Revert.Host, v.Replication.Revert.Snapshot)
	case v.Replica(n.Host).State == ReplicaPlanned:
		return Reject(Precondition, "publish volume %s: the replica on node %s is still being made", v.ID, n.ID)
	case l.Outdated && (v.Replication.Forced == nil || v.Replication.Forced.Host != n.Host):
		return Reject(Precondition, "publish volume %s: the replica on node %s is outdated: its peer went on without it", v.ID, n.ID)
	}
	return nil
}

// staying is the replica of a volume that is not replicated.
func (v *Volume) staying() *Replica {
	for i := range v.Replicas {
		if v.Replicas[i].State != ReplicaLeaving {
			return &v.Replicas[i]
		}
	}
	return &v.Replicas[0]
}

// sourceReplica is the replica that snapshots and clones of the volume are taken from: the one
// where it is published, else the first that is up to date and reachable, the seed's before
// the others; nil when there is none.
func (s *State) sourceReplica(v *Volume) *Replica {
	if v.Replication == nil {
		return v.staying()
	}
	if publications := v.Publications(); len(publications) > 0 {
		if l := v.ActiveReplica(publications[0].Host); l == nil || !l.UpToDate {
			return nil
		}
		return v.Replica(publications[0].Host)
	}
	if relation := s.RelationOf(v); relation != nil {
		if l := s.replicaAt(v, v.Home); l != nil && l.UpToDate && s.replicaReachable(l) {
			return v.Replica(l.Host) // what is made of it lies at the site that made it
		}
		return nil
	}
	hosts := []HostID{v.Replication.Seed}
	for _, l := range v.ActiveReplicas() {
		hosts = append(hosts, l.Host)
	}
	for _, host := range hosts {
		if l := v.ActiveReplica(host); l != nil && l.UpToDate && s.replicaReachable(l) {
			return v.Replica(host)
		}
	}
	return nil
}
