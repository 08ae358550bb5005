package fsm

import (
	"slices"
)

// checkReplication is S151 to S159 of one volume.
func (s *State) checkReplication(v *Volume) error {
	if v.Replication == nil {
		return checkLocal(v)
	}
	for _, check := range []func(*Volume) error{s.checkMinor, s.checkGrant, s.checkLegs, s.checkIndexesOf, checkBirth, s.checkLastCopy} {
		if err := check(v); err != nil {
			return err
		}
	}
	return nil
}

// checkLocal is S159 of a volume that is not replicated.
func checkLocal(v *Volume) error {
	if len(v.Replicas) > 1 || slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.State == ReplicaLeaving }) {
		return broken("S159", "volume %s is not replicated and has the replicas %v", v.ID, v.Replicas)
	}
	return nil
}

// checkMinor is S152.
func (s *State) checkMinor(v *Volume) error {
	r := v.Replication
	key, _ := v.ID.uuid()
	if owner, ok := s.index.minors.Get(r.Minor); !ok || owner != key || r.Minor < firstMinor || r.Port < firstPort || r.Port > lastPort || !s.level2() && r.Port != firstPort+r.Minor-firstMinor {
		return broken("S152", "volume %s has the minor %d and the port %d", v.ID, r.Minor, r.Port)
	}
	return nil
}

// portOwners are the volumes that have the hosts' ports.
type portOwners map[hostPort]VolumeID

// take is S152 of the volume, after those that were before it.
func (o portOwners) take(v *Volume) (err error) {
	(&volumeRecord{Volume: *v}).eachPort(func(p hostPort) {
		if other, twice := o[p]; twice {
			err = broken("S152", "volumes %s and %s both have the port %d on host %s", other, v.ID, p.port, p.host)
		}
		o[p] = v.ID
	})
	return err
}

// checkGrant is S151 and S154.
func (s *State) checkGrant(v *Volume) error {
	r := v.Replication
	if r.Forced != nil && r.leg(r.Forced.Host) == nil {
		return broken("S151", "volume %s is forced on host %s, which has no replica of it", v.ID, r.Forced.Host)
	}
	g := r.Primary
	if g == nil {
		return nil
	}
	p := v.Publication(g.Node)
	switch l := r.leg(g.Host); {
	case p == nil || p.Host != g.Host || p.Epoch != g.Epoch || l == nil:
		return broken("S151", "volume %s is granted to node %s at epoch %s, to which it is not published so", v.ID, g.Node, g.Epoch)
	case s.Holder(v) != "" && l.Outdated:
		return broken("S154", "volume %s is granted to host %s, which is outdated", v.ID, g.Host)
	case g.Index > r.Granted || g.Boot != "" && g.Index != r.Granted:
		return broken("S151", "volume %s has a grant of index %d, the last is of %d", v.ID, g.Index, r.Granted)
	}
	return nil
}

// checkLegs is S153, S156 and S158.
func (s *State) checkLegs(v *Volume) error {
	r := v.Replication
	if !slices.IsSortedFunc(r.Legs, compareLegs) || len(r.Legs) > int(r.Wanted) {
		return broken("S156", "volume %s has the legs %v", v.ID, r.Legs)
	}
	for i := range v.Replicas {
		x := &v.Replicas[i]
		side := x.State != ReplicaGone && x.State != ReplicaLeaving
		if _, deleting := v.Phase.(Deleting); side && v.Leg(x.Host) == nil && !deleting {
			return broken("S156", "volume %s has a replica and no leg on host %s", v.ID, x.Host)
		}
	}
	for i := range r.Legs {
		l := &r.Legs[i]
		n, ok := s.replicaNode(v, l.Host)
		switch {
		case l.UpToDate && l.Outdated:
			return broken("S153", "the replica of volume %s on host %s is up to date and outdated", v.ID, l.Host)
		case l.Alone.UUID != 0 && r.other(l.Host) != nil && !r.other(l.Host).Outdated:
			return broken("S153", "the replica of volume %s on host %s went on alone, and its peer is not outdated", v.ID, l.Host)
		case i > 0 && r.Legs[i-1].Host == l.Host:
			return broken("S156", "volume %s has two legs on host %s", v.ID, l.Host)
		case ok && l.UpToDate && l.Boot != n.Boot:
			return broken("S158", "the replica of volume %s on host %s is up to date in an earlier boot", v.ID, l.Host)
		case l.Seen != (ReplicaSeen{}) && !l.Seen.Down && (l.Seen.Boot != l.Boot || l.Seen.Attach != l.Attach):
			return broken("S158", "the replica of volume %s on host %s was seen in another attachment", v.ID, l.Host)
		}
	}
	return nil
}

// checkIndexesOf is S155: what is known is of the past, and of no earlier grant.
func (s *State) checkIndexesOf(v *Volume) error {
	r, at := v.Replication, s.cluster.Index
	if r.Generation > at || r.Granted > r.Generation || r.Born > r.Generation || r.Generation < v.Created.Index {
		return broken("S155", "volume %s was born at %d, granted at %d, and is at generation %d in a state at %d", v.ID, r.Born, r.Granted, r.Generation, at)
	}
	for i := range r.Legs {
		l := &r.Legs[i]
		if l.Settled.Index > at || l.Alone.Index > at || l.Seen.Generation > at || l.Settled.UUID != 0 && l.Settled.Index <= r.Granted {
			return broken("S155", "host %s knows the contents %v and %v of volume %s, which was granted at %d", l.Host, l.Settled, l.Alone, v.ID, r.Granted)
		}
	}
	return nil
}

// checkLastCopy is S160: while a replica that was given up could come back, some side of
// the volume has its content or had it; and no host is asked to remove the last.
func (s *State) checkLastCopy(v *Volume) error {
	if _, ready := v.Phase.(Ready); !ready || !s.level2() {
		return nil
	}
	kept := slices.ContainsFunc(v.Replicas, func(r Replica) bool { return r.State == ReplicaPresent || r.State == ReplicaMissing })
	if len(v.Replication.Left) > 0 && !kept {
		return broken("S160", "volume %s was given up everywhere: %v", v.ID, v.Replicas)
	}
	for _, l := range v.Replication.Left {
		if r := v.Replica(l.Host); r == nil || r.State != ReplicaLeaving || v.Leg(l.Host) != nil {
			return broken("S160", "volume %s knows what host %s had of it, which is not leaving", v.ID, l.Host)
		}
	}
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if n, ok := s.Node(r.Node); ok && n.Host == r.Host && r.Size > 0 && s.verb(n, v, v.Replica(r.Host)) == WishRemove && !v.hasCopy() {
			return broken("S160", "host %s is asked to remove the last copy of volume %s", r.Host, v.ID)
		}
	}
	return nil
}

// checkBirth is S157.
func checkBirth(v *Volume) error {
	_, ready := v.Phase.(Ready)
	if born := v.Replication.Born != 0; v.creating() && born || ready && !born {
		return broken("S157", "volume %s is %T, born at %d", v.ID, v.Phase, v.Replication.Born)
	}
	return nil
}
