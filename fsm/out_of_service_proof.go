package fsm

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// OutOfService is what the state says of a node that is out of service, or might be taken out.
type OutOfService struct {
	Index uint64 // of the state that it was read from
	Node  NodeID
	Host  HostID
	State NodeState
	// Since is the index at which it was taken out of service; 0: it was not.
	Since uint64
	// Refused says why it cannot be taken out, while it is in service; none: it can.
	Refused []string
	// Ended are the volumes that its host had in use, and may not have reported the end of, with what proves that no write of it
	// is acknowledged; in order of id.
	Ended []WritesEnded
	// Waits says of which volumes that is not proven, while it is out of service. None: no write by the node to any volume is
	// acknowledged until it returned (S170).
	Waits []string
	// ReturnWaits is what keeps it from returning; empty: it may.
	ReturnWaits string
}

// WritesEnded is a volume of which a host that may have it in use gets no write acknowledged any more.
type WritesEnded struct {
	Volume     *Volume
	Generation uint64 // in which the witness saw that; of the volume
	Witness    NodeID // whose host disconnected it, or went on without it
	Reason     string
}

// OutOfService answers what holds of the node now. NotFound: it is not known.
func (s *State) OutOfService(node NodeID) (OutOfService, *Rejection) {
	n, ok := s.Node(node)
	if !ok {
		return OutOfService{}, Reject(NotFound, "node %s is not known", clip(string(node)))
	}
	x := OutOfService{Index: s.cluster.Index, Node: n.ID, Host: n.Host, State: n.State, Since: n.OutOfService, ReturnWaits: s.returnWaitsFor(n)}
	if n.OutOfService == 0 {
		x.Refused = s.outOfServiceRefusals(n)
		return x, nil
	}
	for v := range s.volumesWithTeardownOn(n.ID) {
		if !v.isKnown() {
			continue // it is deleted: nobody is published it again
		}
		if ended, why := s.writesEnded(v, n); why != "" {
			x.Waits = append(x.Waits, fmt.Sprintf("volume %s: %s", v.ID, why))
		} else {
			x.Ended = append(x.Ended, ended)
		}
	}
	return x, nil
}

// writesEnded proves that no write of the node's host to the volume is acknowledged any more, or says what is missing. Its
// publication ended, and with it the grant, in the entry that began a generation, so that the log lets it go on without its peer no
// more (S8). Protocol C acknowledges nothing that the peer does not have; the peer disconnected it for good, as it
// observed in that generation, and has every write that was acknowledged before (S5).
func (s *State) writesEnded(v *Volume, n *Node) (WritesEnded, string) {
	if why := s.neverProven(v, n); why != "" {
		return WritesEnded{}, why
	}
	if by := s.outdatedBy(v, n.Host); by != nil {
		return WritesEnded{v, v.Replication.Generation, by.Node, fmt.Sprintf("the replica on node %s went on, and that of node %s is outdated", by.Node, n.ID)}, ""
	}
	survivor := v.PeerReplica(n.Host)
	switch {
	case survivor == nil:
		return WritesEnded{}, "it has no other replica"
	case v.Replication.Forced != nil:
		return WritesEnded{}, "an operator's decision to go on with what one replica has is not carried out"
	case !s.isolatedBy(v, survivor):
		return WritesEnded{}, fmt.Sprintf("node %s has not reported that its replica is up to date and disconnected: %s", survivor.Node, s.takeoverWaitsFor(v))
	}
	return WritesEnded{v, v.Replication.Generation, survivor.Node, fmt.Sprintf("the replica on node %s is up to date and disconnected from node %s", survivor.Node, n.ID)}, ""
}

// neverProven says why no observation could prove it, empty where one could.
func (s *State) neverProven(v *Volume, n *Node) string {
	switch {
	case v.Replication == nil || v.converting() != nil:
		return fmt.Sprintf("its only copy is on node %s, and no other node could use it", n.ID)
	case v.Replication.Protocol == fsmpb.Protocol_PROTOCOL_A:
		return fmt.Sprintf("with protocol A node %s may go on writing without the other replica", n.ID)
	}
	if isOutdated(v.Replica(n.Host)) && v.RelationMember != nil && v.RelationMember.GivenUp != nil {
		return fmt.Sprintf("another site went on by force, and node %s may go on writing what was given up", n.ID) // S45
	}
	return ""
}

// outdatedBy is the replica that went on without the host's; nil where none did. The log outdates a replica only for one that has every
// write and that disconnected it, or by the word of an operator that its host does not run.
func (s *State) outdatedBy(v *Volume, host HostID) *Replica {
	by := v.PeerReplica(host)
	if !isOutdated(v.Replica(host)) || by == nil || by.Outdated {
		return nil
	}
	return by
}

// isOutdated tells it of any replica, one that is being removed too.
func isOutdated(r *Replica) bool {
	if r == nil || r.ReplicaSync == nil {
		return false
	}
	return r.ReplicaSync.Outdated
}
