package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// requestedReplicas checks how many replicas are requested, and how they replicate.
func requestedReplicas(c *fsmpb.CreateVolume) *Rejection {
	switch {
	case c.GetReplicas() > MaxReplicas:
		return Reject(Invalid, "create volume %q: DRBD 8.4 holds two replicas, %d were asked for", clip(c.GetName()), c.GetReplicas())
	case c.GetReplicas() < MaxReplicas && c.GetProtocol() != fsmpb.Protocol_PROTOCOL_UNKNOWN:
		return Reject(Invalid, "create volume %q: a protocol is for volumes with two replicas", clip(c.GetName()))
	case c.GetProtocol() < 0 || c.GetProtocol() > fsmpb.Protocol_PROTOCOL_C:
		return Reject(Invalid, "create volume %q: protocol %d is not served: ask for A or C", clip(c.GetName()), c.GetProtocol())
	}
	return nil
}

// protocolOf is the requested protocol; C where none is.
func protocolOf(c *fsmpb.CreateVolume) fsmpb.Protocol {
	if c.GetProtocol() == fsmpb.Protocol_PROTOCOL_A {
		return fsmpb.Protocol_PROTOCOL_A
	}
	return fsmpb.Protocol_PROTOCOL_C
}

// hasReplicasOf tells whether the volume has the requested replicas.
func (v *Volume) hasReplicasOf(c *fsmpb.CreateVolume) bool {
	if v.Replication == nil {
		return c.GetReplicas() <= 1
	}
	return v.Replication.ReplicaCount == c.GetReplicas() && v.Replication.Protocol == protocolOf(c)
}

// addSecondReplica gives a volume whose first replica is placed another one, and what they
// replicate by. The first is the seed: with a source it has the content.
func (s *State) addSecondReplica(m Meta, v *Volume, c *fsmpb.CreateVolume, w *placementRequest) *Rejection {
	first := &v.Replicas[0]
	if n, ok := s.Node(first.Node); !ok || !n.canHoldReplicas() {
		return Reject(Precondition, "node %s, where the source is kept, holds no replicas of replicated volumes", first.Node)
	}
	w.size, w.excluded, w.at = v.Crypt.deviceBytes(v.Size), []NodeID{first.Node}, s.siteOfOther(v, first.Node)
	place := s.placeSecondReplica
	if len(v.Sites) > 0 { // the topology that is required is of one site
		place = s.placePeerReplica
	}
	second, rej := place(w, first.Node)
	if rej != nil {
		return rej
	}
	minor, port, rej := s.freeMinor(first, &second)
	if rej != nil {
		return rej
	}
	v.Replicas = append(v.Replicas, second)
	v.Replication = &Replication{
		Protocol: protocolOf(c), ReplicaCount: MaxReplicas, Minor: minor, Port: port, Seed: first.Host, Generation: m.Index,
	}
	for i := range v.Replicas {
		v.Replicas[i].ReplicaSync = &ReplicaSync{}
	}
	return nil
}

// canHoldReplicas tells whether the host can be given replicas of replicated volumes.
func (n *Node) canHoldReplicas() bool {
	return !n.NoNewReplicas && n.Replication.Address != "" && n.Replication.MaxReplicas >= MaxReplicas
}

// admits tells whether another replica can be on the host.
func (w *placementRequest) admits(n *Node) bool {
	return n.canHoldReplicas() && (!slices.Contains(w.excluded, n.ID) || plantedbug.Is(plantedbug.DoublePlacement)) && (w.avoidZone == "" || n.segment(ZoneKey).Value != w.avoidZone)
}

// placeSecondReplica is placePeerReplica for a volume that is being created: where two
// topologies or more are required, two of them are used, or nothing is created. A volume
// that lost a replica gets another one wherever there is room.
func (s *State) placeSecondReplica(w *placementRequest, first NodeID) (Replica, *Rejection) {
	n, ok := s.Node(first)
	if !ok || !s.level2() || !severalTerms(w.requisite) {
		return s.placePeerReplica(w, first)
	}
	attempt := *w
	attempt.requisite = n.otherTerms(w.requisite)
	for _, avoid := range []string{n.segment(ZoneKey).Value, ""} {
		attempt.avoidZone = avoid
		if r, rej := s.placeReplica(&attempt); rej == nil {
			return r, nil
		}
	}
	return Replica{}, Reject(NoCapacity, "two of the topologies that are required have to be used: in none but that of node %s is a host that holds replicas of replicated volumes, can be reached and has a pool with room for %d bytes", first, w.size)
}

// placePeerReplica chooses the other replica's pool. A volume must be accessible from the
// topology that is required: the first replica sees to that. The second is within it
// too where it can be, in another zone than the first where hosts have zones, in the
// first preferred term that has room, in the pool with the most unreserved bytes; in
// this order. So one that is required on a single node has its other replica elsewhere.
func (s *State) placePeerReplica(w *placementRequest, first NodeID) (Replica, *Rejection) {
	zone := ""
	if n, ok := s.Node(first); ok {
		zone = n.segment(ZoneKey).Value
	}
	for _, within := range []bool{true, false} {
		for _, avoid := range []string{zone, ""} {
			attempt := *w
			if attempt.avoidZone = avoid; !within {
				attempt.requisite = nil
			}
			if r, rej := s.placeReplica(&attempt); rej == nil {
				return r, nil
			}
		}
	}
	return Replica{}, Reject(NoCapacity, "no second host holds replicas of replicated volumes, can be reached and has a pool with room for %d bytes", w.size)
}
