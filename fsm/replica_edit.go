package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// Replicated tells whether the volume was created with more than one replica.
func (v *Volume) Replicated() bool { return v.Replication != nil }

// ActiveReplicas are the replicas that take part in the replication, in order of their
// hosts: all but those that are being removed, and those of hosts that were lost. While the
// volume is deleted they include those whose device is gone. A local volume has none.
func (v *Volume) ActiveReplicas() []*Replica {
	if v.Replication == nil {
		return nil
	}
	active := make([]*Replica, 0, MaxReplicas)
	for i := range v.Replicas {
		if r := &v.Replicas[i]; v.isActive(r) {
			active = append(active, r)
		}
	}
	slices.SortFunc(active, func(a, b *Replica) int { return cmp.Compare(a.Host, b.Host) })
	return active
}

func (v *Volume) isActive(r *Replica) bool {
	return v.Replication != nil && r.ReplicaSync != nil && !slices.Contains(v.Replication.Leaving, r.Host)
}

// ActiveReplica is the one of ActiveReplicas on that host, nil when there is none.
func (v *Volume) ActiveReplica(host HostID) *Replica {
	if r := v.replicaOn(host); r != nil && v.isActive(r) {
		return r
	}
	return nil
}

// PeerReplica is the first of ActiveReplicas on another host, nil when there is none.
func (v *Volume) PeerReplica(host HostID) *Replica {
	var peer *Replica
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if r.Host != host && v.isActive(r) && (peer == nil || r.Host < peer.Host) {
			peer = r
		}
	}
	return peer
}

// replicaOn is the replica on that host, also one that is gone; nil when there is none.
func (v *Volume) replicaOn(host HostID) *Replica {
	for i := range v.Replicas {
		if v.Replicas[i].Host == host {
			return &v.Replicas[i]
		}
	}
	return nil
}

// recordedLeaving are the replicas of Replication.Leaving, in its order.
func (v *Volume) recordedLeaving() []*Replica {
	var leaving []*Replica
	for _, host := range v.Replication.Leaving {
		if r := v.replicaOn(host); r != nil && r.ReplicaSync != nil {
			leaving = append(leaving, r)
		}
	}
	return leaving
}

func allUpToDate(replicas []*Replica) bool {
	return !slices.ContainsFunc(replicas, func(r *Replica) bool { return !r.UpToDate })
}

// withReplication is a copy whose Replication, Replicas and their ReplicaSyncs may be changed
// in place.
func (v *Volume) withReplication() Volume {
	updated, r := *v, *v.Replication
	updated.Replication, updated.Replicas = &r, slices.Clone(v.Replicas)
	for i := range updated.Replicas {
		updated.Replicas[i].ReplicaSync = updated.Replicas[i].ReplicaSync.clone()
	}
	return updated
}

func (l *ReplicaSync) clone() *ReplicaSync {
	if l == nil {
		return nil
	}
	c := *l
	return &c
}

// sameReplication compares all that is recorded of the replication, but not of the devices.
func (v *Volume) sameReplication(o *Volume) bool {
	return v.Replication.equal(o.Replication) && equalPointees(v.RelationMember, o.RelationMember) && slices.EqualFunc(v.Replicas, o.Replicas, func(a, b Replica) bool {
		return a.Host == b.Host && equalPointees(a.ReplicaSync, b.ReplicaSync)
	})
}

func (r *Replication) equal(o *Replication) bool {
	return equalPointees(r.Primary, o.Primary) && equalPointees(r.Forced, o.Forced) && equalPointees(r.Conversion, o.Conversion) && equalPointees(r.Revert, o.Revert) && slices.Equal(r.Leaving, o.Leaving) &&
		r.Protocol == o.Protocol && r.ReplicaCount == o.ReplicaCount && r.Minor == o.Minor && r.Port == o.Port && r.Seed == o.Seed &&
		r.InitialSyncIndex == o.InitialSyncIndex && r.Generation == o.Generation && r.LastGrantIndex == o.LastGrantIndex
}

func equalPointees[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// markOutdated records that the peer is primary without the replica, whose header stays that of now (S65).
func (l *ReplicaSync) markOutdated(c *Crypt) {
	if !l.Outdated {
		l.KeyGeneration = c.keyGeneration()
	}
	l.Outdated, l.UpToDate = true, false
}

// clearOutdated records that it has what the volume has.
func (l *ReplicaSync) clearOutdated() {
	l.UpToDate, l.Outdated, l.NotKeptReason, l.KeyGeneration, l.KeepDue, l.Partial = true, false, "", 0, false, false
	l.CutIndex, l.Copied = 0, false
}

// isOfAttachment tells whether the observation is of the recorded attachment (S5).
func (l *ReplicaSync) isOfAttachment(n *Node, observed ReplicaObservation) bool {
	return l.Boot == n.Boot && observed.Boot == n.Boot && observed.Attachment == l.Attachment
}

// seesBothUpToDate tells whether the host last observed both replicas connected and
// UpToDate, under the current generation (S10).
func (r *Replication) seesBothUpToDate(l *Replica) bool {
	x := &l.Observed
	return x.Boot == l.Boot && x.Attachment == l.Attachment && (x.Generation == r.Generation || plantedbug.Is(plantedbug.EarlierGeneration)) && x.UUID != 0 && x.Connected() && !x.Unconfigured &&
		x.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE && x.PeerDisk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE
}

// PrimaryHost is the host that has the grant to be primary, "" when none has: the last grant
// counts while its publication exists and its host did not boot again (S2).
func (s *State) PrimaryHost(v *Volume) HostID {
	if v.Replication == nil || v.Replication.Primary == nil {
		return ""
	}
	g := v.Replication.Primary
	n, ok := s.Node(g.Node)
	if !ok || n.Host != g.Host || n.Boot != g.Boot {
		return ""
	}
	if p := v.Publication(g.Node); p == nil || p.Host != g.Host || p.Epoch != g.Epoch {
		return ""
	}
	return g.Host
}

// mayBePrimary tells whether the replica on the host may be primary: the host has the grant,
// or last reported that it is.
func (s *State) mayBePrimary(v *Volume, host HostID) bool {
	l := v.ActiveReplica(host)
	return l != nil && (l.Observed.Primary || s.PrimaryHost(v) == host)
}

// nodeOfReplica is the node of the replica; false when the replica is gone, or the node is
// another host now.
func (s *State) nodeOfReplica(r *Replica) (*Node, bool) {
	if r.State == ReplicaGone {
		return nil, false
	}
	n, ok := s.Node(r.Node)
	return n, ok && n.Host == r.Host
}

// replicaReachable tells whether the replica's host can be asked now.
func (s *State) replicaReachable(r *Replica) bool {
	n, ok := s.nodeOfReplica(r)
	return ok && n.canBeAsked()
}

// endGrant revokes the grant, and begins a new generation: earlier observations count for no
// recorded UUID (S5). The volume's Replication is a copy already.
func (v *Volume) endGrant(index uint64) {
	r := v.Replication
	if r.Primary == nil {
		return
	}
	if r.Primary.Boot != "" {
		r.Generation = index
	}
	r.Primary = nil
	v.noteUseEnded(index)
}

// relinquishPrimary ends the grant as its host reported that it is secondary, under a
// publication that stays. Done is kept, so that only staging requests another promotion.
func (r *Replication) relinquishPrimary(index uint64) {
	r.Generation = index
	r.Primary = &PrimaryGrant{Node: r.Primary.Node, Host: r.Primary.Host, Epoch: r.Primary.Epoch, Index: r.Primary.Index, Done: r.Primary.Done}
}
