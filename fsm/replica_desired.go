package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// desiredReplica is the desired state of a host's replica, nil for local volumes.
func (s *State) desiredReplica(n *Node, v *Volume) *DesiredReplica {
	r := v.Replication
	if r == nil {
		return nil
	}
	d := &DesiredReplica{
		Protocol: r.Protocol, Minor: r.Minor, Port: r.Port, Address: n.Replication.Address,
		Seed: r.Seed == n.Host && r.InitialSyncIndex == 0, SyncFromSeed: s.needsSyncFromSeed(v), InitialSyncDone: r.InitialSyncIndex != 0, Generation: r.Generation,
		Force: r.Forced != nil && r.Forced.Host == n.Host, BackingCapacity: v.minBackingCapacity(),
	}
	own, other := v.ActiveReplica(n.Host), v.PeerReplica(n.Host)
	if other != nil {
		d.Peer = s.replicaPeer(v, other)
	}
	if own == nil {
		return d // it is being removed
	}
	d.Connect = d.Peer != nil && s.shouldConnect(v, own, other)
	d.Outdated, d.UpToDate, d.Attachment, d.Observed, d.InSyncUUID = own.Outdated, own.UpToDate, own.Attachment, own.Observed, own.InSyncUUID.Value
	d.DiskFailed = own.DiskFailed
	if d.Peer != nil {
		d.Peer.DiskAttached = own.waitsForPeer() && !d.Peer.Incomplete && s.diskAttachedNow(v, other)
	}
	if p := v.Publication(n.ID); p != nil && p.Host == n.Host && n.Incarnation == s.cluster.Incarnation {
		d.Primary = !own.Outdated || d.Force
		d.PromotionDone = r.Primary != nil && r.Primary.Host == n.Host && r.Primary.Epoch == p.Epoch && r.Primary.Done
	}
	return d
}

// needsSyncFromSeed tells whether the other replica has yet to be synchronised from the seed's
// copy of the source.
func (s *State) needsSyncFromSeed(v *Volume) bool {
	return v.isCreating() && !v.Source.IsZero() && v.Replication.Generation == v.Created.Index
}

func (s *State) replicaPeer(v *Volume, l *Replica) *ReplicaPeer {
	n, ok := s.nodeOfReplica(l)
	if !ok {
		return nil
	}
	incomplete := l.Outdated || l.DiskFailed != 0 || l.Observed.diskUnusable() || l.State == ReplicaMissing
	return &ReplicaPeer{
		Node: n.ID, Host: n.Host, Address: n.Replication.Address, PublicKey: []byte(n.Replication.PublicKey),
		UpToDate: l.UpToDate && !incomplete, Incomplete: incomplete,
	}
}

// waitsForPeer: its disk failed or is not attached. What its host may do then can depend on
// whether the peer's disk is attached (S67).
func (l *ReplicaSync) waitsForPeer() bool {
	return l.DiskFailed != 0 || l.Observed.Unconfigured || l.Observed.Disk <= fsmpb.DiskState_DISK_STATE_FAILED
}

// diskAttachedNow tells whether the replica's host is reachable, and its kernel has the disk.
func (s *State) diskAttachedNow(v *Volume, l *Replica) bool {
	n, ok := s.nodeOfReplica(l)
	x := &l.Observed
	return ok && n.State == NodeReachable && l.isOfAttachment(n, *x) && x.Generation == v.Replication.Generation && !x.Unconfigured &&
		x.Disk >= fsmpb.DiskState_DISK_STATE_CONSISTENT
}

// shouldConnect: a replica does not connect to a peer whose publication was revoked while the
// peer is unreachable or outdated. Such a peer may still be primary: its I/O freezes (S8), and
// it reconnects only after it was torn down (S9), so there is no split brain. Two outdated
// replicas stay disconnected, as neither can be the other's sync source, until one of them is
// forced (S71).
func (s *State) shouldConnect(v *Volume, own, other *Replica) bool {
	if v.Teardown(other.Host) != nil && (other.Outdated || !s.replicaReachable(other)) {
		return false
	}
	if s.level2() && own.Outdated && other.Outdated {
		return false
	}
	return !own.Outdated || v.Teardown(own.Host) == nil
}

// minBackingCapacity is the largest size of the volume, in bytes, that every backing device has
// room for, as last observed; 0 while one was not observed.
func (v *Volume) minBackingCapacity() int64 {
	var least int64
	for i, l := range v.ActiveReplicas() {
		if b := l.Observed.BackingCapacity; i == 0 || b < least {
			least = b
		}
	}
	return least
}

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
	if p == nil || v.Replication == nil || v.Replication.Primary == nil {
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
	case v.Replica(n.Host).State == ReplicaPlanned:
		return Reject(Precondition, "publish volume %s: the replica on node %s is still being made", v.ID, n.ID)
	case l.Outdated && (v.Replication.Forced == nil || v.Replication.Forced.Host != n.Host):
		return Reject(Precondition, "publish volume %s: the replica on node %s is outdated: its peer went on without it", v.ID, n.ID)
	}
	return nil
}

// sourceReplica is the replica that snapshots and clones of the volume are taken from: the one
// where it is published, else the first that is up to date and reachable, the seed's before
// the others; nil when there is none.
func (s *State) sourceReplica(v *Volume) *Replica {
	if v.Replication == nil {
		return &v.Replicas[0]
	}
	if publications := v.Publications(); len(publications) > 0 {
		if l := v.ActiveReplica(publications[0].Host); l == nil || !l.UpToDate {
			return nil
		}
		return v.Replica(publications[0].Host)
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
