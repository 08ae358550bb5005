package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// requestedReplicas checks how many replicas are asked for, and how they replicate.
func requestedReplicas(c *fsmpb.CreateVolume) *Rejection {
	switch {
	case c.GetReplicas() > mostReplicas:
		return Reject(Invalid, "create volume %q: DRBD 8.4 holds two replicas, %d were asked for", clip(c.GetName()), c.GetReplicas())
	case c.GetReplicas() < mostReplicas && c.GetProtocol() != fsmpb.Protocol_PROTOCOL_UNKNOWN:
		return Reject(Invalid, "create volume %q: a protocol is for volumes with two replicas", clip(c.GetName()))
	case c.GetProtocol() < 0 || c.GetProtocol() > fsmpb.Protocol_PROTOCOL_C:
		return Reject(Invalid, "create volume %q: protocol %d is not served: ask for A or C", clip(c.GetName()), c.GetProtocol())
	}
	return nil
}

// protocolOf is the protocol that is asked for; C where none is.
func protocolOf(c *fsmpb.CreateVolume) fsmpb.Protocol {
	if c.GetProtocol() == fsmpb.Protocol_PROTOCOL_A {
		return fsmpb.Protocol_PROTOCOL_A
	}
	return fsmpb.Protocol_PROTOCOL_C
}

// replicatedAs tells whether the volume has the replicas that are asked for.
func (v *Volume) replicatedAs(c *fsmpb.CreateVolume) bool {
	if v.Replication == nil {
		return c.GetReplicas() <= 1
	}
	return v.Replication.Wanted == c.GetReplicas() && v.Replication.Protocol == protocolOf(c)
}

// replicate gives a volume whose first replica is placed another one, and what they
// replicate by. The first is the seed: with a source it has the content.
func (s *State) replicate(m Meta, v *Volume, c *fsmpb.CreateVolume, w *wanted) *Rejection {
	first := &v.Replicas[0]
	if n, ok := s.Node(first.Node); !ok || !n.replicates() {
		return Reject(Precondition, "node %s, where the source is kept, holds no replicas of replicated volumes", first.Node)
	}
	w.size, w.except = v.Size, []NodeID{first.Node}
	second, rej := s.placeOther(w, first.Node)
	if rej != nil {
		return rej
	}
	minor, port, rej := s.freeMinor(first, &second)
	if rej != nil {
		return rej
	}
	v.Replicas = append(v.Replicas, second)
	v.Replication = &Replication{
		Protocol: protocolOf(c), Wanted: mostReplicas, Minor: minor, Port: port, Seed: first.Host, Generation: m.Index,
		Legs: legsOf(v.Replicas),
	}
	return nil
}

func legsOf(replicas []Replica) []Leg {
	var legs []Leg
	for i := range replicas {
		legs = append(legs, Leg{Host: replicas[i].Host})
	}
	slices.SortFunc(legs, compareLegs)
	return legs
}

// replicates tells whether the host can be given replicas of replicated volumes.
func (n *Node) replicates() bool {
	return !n.NoNewReplicas && n.Replication.Address != "" && n.Replication.MaxReplicas >= mostReplicas
}

// admits tells whether another replica can be on the host.
func (w *wanted) admits(n *Node) bool {
	return n.replicates() && !slices.Contains(w.except, n.ID) && (w.zone == "" || n.segment(ZoneKey).Value != w.zone)
}

// placeOther is placeSecond for a volume that is made: where two topologies or more are
// required, two of them are used, or nothing is made. One that lost a replica takes
// another wherever there is one.
func (s *State) placeOther(w *wanted, first NodeID) (Replica, *Rejection) {
	n, ok := s.Node(first)
	if !ok || !s.level2() || !severalTerms(w.requisite) {
		return s.placeSecond(w, first)
	}
	try := *w
	try.requisite = n.otherTerms(w.requisite)
	for _, avoid := range []string{n.segment(ZoneKey).Value, ""} {
		try.zone = avoid
		if r, rej := s.place(&try); rej == nil {
			return r, nil
		}
	}
	return Replica{}, Reject(NoCapacity, "two of the topologies that are required have to be used: in none but that of node %s is a host that holds replicas of replicated volumes, can be reached and has a pool with room for %d bytes", first, w.size)
}

// placeSecond chooses the other replica's pool. A volume must be accessible from the
// topology that is required: the first replica sees to that. The second is within it
// too where it can be, in another zone than the first where hosts have zones, in the
// first preferred term that has room, in the pool with the most unreserved bytes; in
// this order. So one that is required on a single node has its other replica elsewhere.
func (s *State) placeSecond(w *wanted, first NodeID) (Replica, *Rejection) {
	zone := ""
	if n, ok := s.Node(first); ok {
		zone = n.segment(ZoneKey).Value
	}
	for _, within := range []bool{true, false} {
		for _, avoid := range []string{zone, ""} {
			try := *w
			if try.zone = avoid; !within {
				try.requisite = nil
			}
			if r, rej := s.place(&try); rej == nil {
				return r, nil
			}
		}
	}
	return Replica{}, Reject(NoCapacity, "no second host holds replicas of replicated volumes, can be reached and has a pool with room for %d bytes", w.size)
}
