package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Replicated tells whether the volume was created with more than one replica.
func (v *Volume) Replicated() bool { return v.Replication != nil }

// ActiveReplicas are the replicas that take part in the replication, in order of their
// hosts: all but those that are being removed, and those of hosts that were lost. None of
// a volume that is not replicated.
func (v *Volume) ActiveReplicas() []*ReplicaSync {
	if v.Replication == nil {
		return nil
	}
	active := make([]*ReplicaSync, 0, maxReplicas)
	for i := range v.Replication.Syncs {
		active = append(active, &v.Replication.Syncs[i])
	}
	return active
}

// ActiveReplica is the one of ActiveReplicas on that host, nil when there is none.
func (v *Volume) ActiveReplica(host HostID) *ReplicaSync {
	for _, r := range v.ActiveReplicas() {
		if r.Host == host {
			return r
		}
	}
	return nil
}

// PeerReplica is the one of ActiveReplicas on another host, nil when there is none.
func (v *Volume) PeerReplica(host HostID) *ReplicaSync {
	for _, r := range v.ActiveReplicas() {
		if r.Host != host {
			return r
		}
	}
	return nil
}

func allUpToDate(replicas []*ReplicaSync) bool {
	return !slices.ContainsFunc(replicas, func(r *ReplicaSync) bool { return !r.UpToDate })
}

// withReplication is a copy whose replication may be changed in place.
func (v *Volume) withReplication() Volume {
	updated, r := *v, *v.Replication
	r.Syncs = slices.Clone(r.Syncs)
	updated.Replication = &r
	return updated
}

// equal compares all that is recorded.
func (r *Replication) equal(o *Replication) bool {
	a, b := *r, *o
	if !equalPointees(a.Primary, b.Primary) || !equalPointees(a.Forced, b.Forced) || !slices.Equal(a.Syncs, b.Syncs) || !slices.Equal(a.Leaving, b.Leaving) {
		return false
	}
	a.Primary, a.Forced, a.Syncs, b.Primary, b.Forced, b.Syncs = nil, nil, nil, nil, nil, nil
	return a.Protocol == b.Protocol && a.ReplicaCount == b.ReplicaCount && a.Minor == b.Minor && a.Port == b.Port && a.Seed == b.Seed &&
		a.InitialSyncIndex == b.InitialSyncIndex && a.Generation == b.Generation && a.LastGrantIndex == b.LastGrantIndex
}

func equalPointees[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// markOutdated records that the peer went on without the replica.
func (l *ReplicaSync) markOutdated() { l.Outdated, l.UpToDate = true, false }

// isOfAttachment tells whether the observation is of the attachment that the log knows (S5).
func (l *ReplicaSync) isOfAttachment(n *Node, observed ReplicaObservation) bool {
	return l.Boot == n.Boot && observed.Boot == n.Boot && observed.Attachment == l.Attachment
}

// together tells whether the host last saw both replicas connected and whole, under
// the current generation (S10).
func (r *Replication) seesBothUpToDate(l *ReplicaSync) bool {
	x := &l.Observed
	return x.Boot == l.Boot && x.Attachment == l.Attachment && x.Generation == r.Generation && x.UUID != 0 && x.Connected() && !x.Unconfigured &&
		x.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE && x.PeerDisk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE
}

// PrimaryHost is the host that may be primary now, "" when nobody may: the last grant
// counts while its publication is there and its host did not boot again (S2).
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

// mayBePrimary tells whether the host may have its replica primary: it has the grant,
// or said that it is.
func (s *State) mayBePrimary(v *Volume, host HostID) bool {
	l := v.ActiveReplica(host)
	return l != nil && (l.Observed.Primary || s.PrimaryHost(v) == host)
}

// nodeOfReplica is the node of the replica on that host.
func (s *State) nodeOfReplica(v *Volume, host HostID) (*Node, bool) {
	r := v.Replica(host)
	if r == nil {
		return nil, false
	}
	n, ok := s.Node(r.Node)
	return n, ok && n.Host == host
}

// replicaReachable tells whether the leg's host can be asked now.
func (s *State) replicaReachable(v *Volume, l *ReplicaSync) bool {
	n, ok := s.nodeOfReplica(v, l.Host)
	return ok && n.State == NodeReachable
}

// endGrant takes the right to be primary away. What is observed from here on is of a
// new generation: what was seen before counts for no content that is known (S5).
func (r *Replication) endGrant(index uint64) {
	if r.Primary != nil && r.Primary.Boot != "" {
		r.Generation = index
	}
	r.Primary = nil
}

// relinquishPrimary ends the grant by its host's own word, under a publication that stays. That
// it was carried out once is kept: only a new staging asks again.
func (r *Replication) relinquishPrimary(index uint64) {
	r.Generation = index
	r.Primary = &PrimaryGrant{Node: r.Primary.Node, Host: r.Primary.Host, Epoch: r.Primary.Epoch, Index: r.Primary.Index, Done: r.Primary.Done}
}
