package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// replicaWish is what the log wants of a host's replica, nil for local volumes.
func (s *State) replicaWish(n *Node, v *Volume) *ReplicaWish {
	r := v.Replication
	if r == nil {
		return nil
	}
	w := &ReplicaWish{
		Protocol: r.Protocol, Minor: r.Minor, Port: r.Port, Address: n.Replication.Address,
		Seed: r.Seed == n.Host && r.Born == 0, CopySeed: s.copySeed(v), Born: r.Born != 0, Generation: r.Generation,
		Force: r.Forced != nil && r.Forced.Host == n.Host, Backing: r.backing(),
	}
	own, other := r.leg(n.Host), r.other(n.Host)
	if other != nil {
		w.Peer = s.replicaPeer(v, other)
	}
	if own == nil {
		return w // it was given up
	}
	w.Connect = w.Peer != nil && s.shouldConnect(v, own, other)
	w.Outdated, w.UpToDate, w.Attach, w.Seen, w.SettledUUID = own.Outdated, own.UpToDate, own.Attach, own.Seen, own.Settled.UUID
	w.DiskFailed = own.DiskFailed
	if w.Peer != nil {
		w.Peer.Attached = own.waits() && !w.Peer.Lost && s.attachedNow(v, other)
	}
	if p := v.Publication(n.ID); p != nil && p.Host == n.Host && n.Incarnation == s.cluster.Incarnation {
		w.Primary = !own.Outdated || w.Force
		w.PrimaryDone = r.Primary != nil && r.Primary.Host == n.Host && r.Primary.Epoch == p.Epoch && r.Primary.Done
	}
	return w
}

// copySeed tells whether the copy of a source's content has yet to begin.
func (s *State) copySeed(v *Volume) bool {
	return v.creating() && !v.Source.IsZero() && v.Replication.Generation == v.Created.Index
}

func (s *State) replicaPeer(v *Volume, l *Leg) *ReplicaPeer {
	n, ok := s.replicaNode(v, l.Host)
	if !ok {
		return nil
	}
	lost := l.Outdated || l.DiskFailed != 0 || l.Seen.gaveUp() || v.Replica(l.Host).State == ReplicaMissing
	return &ReplicaPeer{
		Node: n.ID, Host: n.Host, Address: n.Replication.Address, PublicKey: []byte(n.Replication.PublicKey),
		UpToDate: l.UpToDate && !lost, Lost: lost,
	}
}

// waits: its disk failed, or its kernel does not have it. What it may do then can depend on
// whether its peer is there (S67).
func (l Leg) waits() bool {
	return l.DiskFailed != 0 || l.Seen.Down || l.Seen.Disk <= fsmpb.DiskState_DISK_STATE_FAILED
}

// attachedNow tells whether the leg's host can be asked, and its kernel has the disk.
func (s *State) attachedNow(v *Volume, l *Leg) bool {
	n, ok := s.replicaNode(v, l.Host)
	x := &l.Seen
	return ok && n.State == NodeReachable && l.matches(n, *x) && x.Generation == v.Replication.Generation && !x.Down &&
		x.Disk >= fsmpb.DiskState_DISK_STATE_CONSISTENT
}

// shouldConnect: a replica stays away from a peer that may still be primary without a
// grant and cannot be asked, or lost: the peer freezes (S8), and comes back only after
// it was torn down (S9). So there is no split brain. Of two outdated replicas neither has
// what the other could take: they stay apart until one of them is decided to go on (S71).
func (s *State) shouldConnect(v *Volume, own, other *Leg) bool {
	if v.Teardown(other.Host) != nil && (other.Outdated || !s.reachable(v, other)) {
		return false
	}
	if s.level2() && own.Outdated && other.Outdated {
		return false
	}
	return !own.Outdated || v.Teardown(own.Host) == nil
}

// backing is the largest volume that every replica's device has room for, as far as
// their hosts said.
func (r *Replication) backing() int64 {
	var least int64
	for i := range r.Legs {
		if b := r.Legs[i].Seen.Backing; i == 0 || b < least {
			least = b
		}
	}
	return least
}

// Severed tells whether nobody who was published the volume and cannot be asked is able
// to write to it any more: the other replica has cut the connection and has everything
// (S8). A ControllerUnpublish from an unreachable host waits for it.
func (s *State) Severed(id VolumeID) bool {
	v, ok := s.Volume(id)
	if !ok || v.Replication == nil {
		return true
	}
	for _, t := range v.Teardowns {
		lost, kept := v.Leg(t.Host), v.OtherLeg(t.Host)
		if lost == nil || lost.Outdated || kept == nil || s.reachable(v, lost) {
			continue
		}
		if !s.severed(v, kept) {
			return false
		}
	}
	return true
}

func (s *State) severed(v *Volume, kept *Leg) bool {
	n, ok := s.replicaNode(v, kept.Host)
	x := kept.Seen
	if !ok || !kept.matches(n, x) || x.Generation != v.Replication.Generation || x.Connection != fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE {
		return false
	}
	a := &asking{s: s, v: v, n: n, r: v.Replication, own: kept, other: v.OtherLeg(kept.Host), seen: x}
	return a.alone() == nil || a.forcible()
}

// PrimaryDone tells whether the node's host reported that it is primary under the
// publication that it has now.
func (s *State) PrimaryDone(v *Volume, node NodeID) bool {
	p := v.Publication(node)
	if p == nil || v.Replication == nil || v.Replication.Primary == nil {
		return false
	}
	g := v.Replication.Primary
	return g.Host == p.Host && g.Epoch == p.Epoch && g.Done
}

// mayLead says why a node cannot be published a replicated volume.
func (v *Volume) mayLead(n *Node) *Rejection {
	if v.Replication == nil {
		return nil
	}
	switch l := v.Leg(n.Host); {
	case l == nil:
		return Reject(Precondition, "publish volume %s: the replica on node %s was given up", v.ID, n.ID)
	case v.Replica(n.Host).Short:
		return Reject(Busy, "publish volume %s: the replica on node %s has %d of its %d bytes, and is grown first", v.ID, n.ID, v.Replica(n.Host).Size, v.Size)
	case v.Replica(n.Host).State == ReplicaPlanned:
		return Reject(Precondition, "publish volume %s: the replica on node %s is still being made", v.ID, n.ID)
	case l.Outdated && (v.Replication.Forced == nil || v.Replication.Forced.Host != n.Host):
		return Reject(Precondition, "publish volume %s: the replica on node %s is outdated: its peer went on without it", v.ID, n.ID)
	}
	return nil
}

// cutFrom is the replica that snapshots and clones of the volume are made from: where
// it is published, else the first one that is up to date; nil when none is.
func (s *State) cutFrom(v *Volume) *Replica {
	if v.Replication == nil {
		return &v.Replicas[0]
	}
	if held := v.Publications(); len(held) > 0 {
		if l := v.Leg(held[0].Host); l == nil || !l.UpToDate {
			return nil
		}
		return v.Replica(held[0].Host)
	}
	hosts := []HostID{v.Replication.Seed}
	for i := range v.Replication.Legs {
		hosts = append(hosts, v.Replication.Legs[i].Host)
	}
	for _, host := range hosts {
		if l := v.Leg(host); l != nil && l.UpToDate && s.reachable(v, l) {
			return v.Replica(host)
		}
	}
	return nil
}
