package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Replicated tells whether the volume was created with more than one replica.
func (v *Volume) Replicated() bool { return v.Replication != nil }

// Leg is the host's side of a replicated volume, nil when it has none.
func (v *Volume) Leg(host HostID) *Leg {
	if v.Replication == nil {
		return nil
	}
	return v.Replication.leg(host)
}

// OtherLeg is the side of the other host, nil when there is none.
func (v *Volume) OtherLeg(host HostID) *Leg {
	if v.Replication == nil {
		return nil
	}
	return v.Replication.other(host)
}

func (r *Replication) leg(host HostID) *Leg {
	for i := range r.Legs {
		if r.Legs[i].Host == host {
			return &r.Legs[i]
		}
	}
	return nil
}

func (r *Replication) other(host HostID) *Leg {
	for i := range r.Legs {
		if r.Legs[i].Host != host {
			return &r.Legs[i]
		}
	}
	return nil
}

// withReplication is a copy whose replication may be changed in place.
func (v *Volume) withReplication() Volume {
	now, r := *v, *v.Replication
	r.Legs = slices.Clone(r.Legs)
	now.Replication = &r
	return now
}

// equal compares all that is recorded.
func (r *Replication) equal(o *Replication) bool {
	a, b := *r, *o
	if !same(a.Primary, b.Primary) || !same(a.Forced, b.Forced) || !slices.Equal(a.Legs, b.Legs) || !slices.Equal(a.Left, b.Left) {
		return false
	}
	a.Primary, a.Forced, a.Legs, b.Primary, b.Forced, b.Legs = nil, nil, nil, nil, nil, nil
	return a.Protocol == b.Protocol && a.Wanted == b.Wanted && a.Minor == b.Minor && a.Port == b.Port && a.Seed == b.Seed &&
		a.Born == b.Born && a.Generation == b.Generation && a.Granted == b.Granted
}

func same[T comparable](a, b *T) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// outdated records that the peer went on without the replica.
func (l *Leg) outdated() { l.Outdated, l.UpToDate = true, false }

// matches tells whether the observation is of the attachment that the log knows (S5).
func (l *Leg) matches(n *Node, seen ReplicaSeen) bool {
	return l.Boot == n.Boot && seen.Boot == n.Boot && seen.Attach == l.Attach
}

// together tells whether the host last saw both replicas connected and whole, under
// the current generation (S10).
func (r *Replication) together(l *Leg) bool {
	x := &l.Seen
	return x.Boot == l.Boot && x.Attach == l.Attach && x.Generation == r.Generation && x.UUID != 0 && x.Connected() && !x.Down &&
		x.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE && x.PeerDisk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE
}

// Holder is the host that may be primary now, "" when nobody may: the last grant
// counts while its publication is there and its host did not boot again (S2).
func (s *State) Holder(v *Volume) HostID {
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
	l := v.Leg(host)
	return l != nil && (l.Seen.Primary || s.Holder(v) == host)
}

// replicaNode is the node of the replica on that host.
func (s *State) replicaNode(v *Volume, host HostID) (*Node, bool) {
	r := v.Replica(host)
	if r == nil {
		return nil, false
	}
	n, ok := s.Node(r.Node)
	return n, ok && n.Host == host
}

// reachable tells whether the leg's host can be asked now.
func (s *State) reachable(v *Volume, l *Leg) bool {
	n, ok := s.replicaNode(v, l.Host)
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

// giveBack ends the grant by its host's own word, under a publication that stays. That
// it was carried out once is kept: only a new staging asks again.
func (r *Replication) giveBack(index uint64) {
	r.Generation = index
	r.Primary = &Primary{Node: r.Primary.Node, Host: r.Primary.Host, Epoch: r.Primary.Epoch, Index: r.Primary.Index, Done: r.Primary.Done}
}
