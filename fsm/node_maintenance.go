package fsm

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxStopReasons bounds how many volumes a rejection names.
const maxStopReasons = 3

// StopBlockers are the volumes that would be lost, frozen or made unavailable if the host stopped now, beside those that are
// in maintenance already. With allowUnused those that are published to no host may be unavailable meanwhile.
func (s *State) StopBlockers(node NodeID, allowUnused bool) (blockers []VolumeImpact) {
	impact := s.IfStopped(Failure{Nodes: []NodeID{node}})
	for _, v := range impact.Volumes {
		switch {
		case v.Impact < ImpactUnavailable:
		case v.Impact == ImpactUnavailable && allowUnused && !v.Used:
		default:
			blockers = append(blockers, v)
		}
	}
	return append(blockers, s.usedWithoutGrant(node)...)
}

// usedWithoutGrant are the host's replicated volumes of which a host is primary and that nobody has a grant for, as after a
// restore: the primary would not be let go on without its peer, and nobody else could take over.
func (s *State) usedWithoutGrant(node NodeID) (blockers []VolumeImpact) {
	for v := range s.VolumesOn(node) {
		for _, l := range v.ActiveReplicas() {
			if s.PrimaryHost(v) == "" && l.Observed.Primary {
				blockers = append(blockers, VolumeImpact{Volume: v, Impact: ImpactFrozen, Used: true, Reason: fmt.Sprintf("it is in use on node %s, and nobody has the right to go on alone", l.Node)})
			}
		}
	}
	return blockers
}

// rejectUnadopted: after a restore the log does not know what the host does until it is adopted.
func rejectUnadopted(n *Node) *Rejection {
	return Reject(Unreachable, "node %s is in adoption mode: what it does is not known until an operator adopts it", n.ID)
}

// applyClaimMaintenance records that a host goes down on purpose, where nothing is lost, frozen or made unavailable by it
// beside the hosts that are recorded so already: of two that ask at once, the second is told of the first. One that is in
// maintenance is asked about again each time. No time ends it: the host does by registering in another boot, or it is released.
func applyClaimMaintenance(s *State, m Meta, c *fsmpb.ClaimMaintenance) (*fsmpb.Outcome, *Rejection) {
	n, rej := s.nodeOfHost(c.GetNodeId(), c.GetHostId())
	switch {
	case rej != nil:
		return nil, rej
	case c.GetRelease():
		s.setMaintenance(n, 0)
		return &fsmpb.Outcome{}, nil
	case n.Incarnation != s.cluster.Incarnation:
		return nil, rejectUnadopted(n)
	case n.State != NodeReachable:
		return nil, Reject(Unreachable, "put node %s into maintenance: it cannot be reached, and what it does is not known", n.ID)
	}
	if blockers := s.StopBlockers(n.ID, c.GetAllowUnused()); len(blockers) > 0 {
		return nil, Reject(Precondition, "put node %s into maintenance: %s%s", n.ID, stopReasons(blockers), s.besideMaintenance(n.ID))
	}
	if n.Maintenance == 0 {
		s.setMaintenance(n, m.Index)
	}
	return &fsmpb.Outcome{}, nil
}

func (s *State) setMaintenance(n *Node, index uint64) {
	if n.Maintenance == index {
		return
	}
	updated := *n
	updated.Maintenance = index
	s.putNode(updated)
}

// stopReasons names the first of the volumes, for people.
func stopReasons(blockers []VolumeImpact) string {
	var all []string
	for _, b := range blockers[:min(len(blockers), maxStopReasons)] {
		all = append(all, b.String())
	}
	if more := len(blockers) - maxStopReasons; more > 0 {
		all = append(all, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(all, "; ")
}

// besideMaintenance names the hosts that are in maintenance besides one, empty where there are none.
func (s *State) besideMaintenance(node NodeID) string {
	if others := s.OthersInMaintenance(node); len(others) > 0 {
		return fmt.Sprintf(" (in maintenance already: %s)", strings.Join(others, ", "))
	}
	return ""
}

// OthersInMaintenance are the hosts that are in maintenance besides one, in order.
func (s *State) OthersInMaintenance(node NodeID) (others []string) {
	for n := range s.Nodes() {
		if n.Maintenance != 0 && n.ID != node {
			others = append(others, string(n.ID))
		}
	}
	return others
}

// maintenanceAfter is what a registration leaves of it: it ends with the boot in which it began.
func maintenanceAfter(old, n *Node) uint64 {
	if old == nil || old.Host != n.Host || old.Boot != n.Boot {
		return 0
	}
	return old.Maintenance
}

// StopAnswer is whether a host may stop now.
type StopAnswer struct {
	Index   uint64 // of the state that it was read from
	Node    NodeID
	Host    HostID
	Safe    bool
	Reasons []string // why not
	// More is how many reasons there are beside those.
	More int
	// InMaintenance are the other hosts that may go down at any moment.
	InMaintenance []string
	// Claimed is the index at which this one was recorded to go down; 0: it was not.
	Claimed uint64
}

// maxAnswerReasons bounds the reasons of an answer.
const maxAnswerReasons = 100

// MayStop answers whether a host may be rebooted now, so that nothing is lost, frozen or made unavailable: as StopBlockers.
// NotFound and StaleEpoch: there is no such host. Unreachable: what it does is not known.
func (s *State) MayStop(node NodeID, allowUnused bool) (StopAnswer, *Rejection) {
	n, ok := s.Node(node)
	switch {
	case !ok:
		return StopAnswer{}, Reject(NotFound, "node %s is not known", clip(string(node)))
	case n.State == NodeLost:
		return StopAnswer{}, Reject(StaleEpoch, "host %s of node %s was recorded as lost", n.Host, n.ID)
	case n.Incarnation != s.cluster.Incarnation:
		return StopAnswer{}, rejectUnadopted(n)
	case n.State != NodeReachable:
		return StopAnswer{}, Reject(Unreachable, "node %s cannot be reached, and what it does is not known", n.ID)
	}
	blockers := s.StopBlockers(n.ID, allowUnused)
	answer := StopAnswer{Index: s.cluster.Index, Node: n.ID, Host: n.Host, Safe: len(blockers) == 0, InMaintenance: s.OthersInMaintenance(n.ID), Claimed: n.Maintenance}
	for _, b := range blockers[:min(len(blockers), maxAnswerReasons)] {
		answer.Reasons = append(answer.Reasons, b.String())
	}
	answer.More = max(0, len(blockers)-maxAnswerReasons)
	return answer, nil
}

// ReplicatedStopReasons say which replicated volumes would be lost, frozen or made unavailable if the host stopped now, the first
// of them; none of a host that cannot be reached. Those with one copy come back with their host, as whoever chose that knows.
func (s *State) ReplicatedStopReasons(node NodeID) (reasons []string) {
	if n, ok := s.Node(node); !ok || n.State != NodeReachable || n.Incarnation != s.cluster.Incarnation {
		return nil
	}
	for _, b := range s.StopBlockers(node, true) {
		if b.Volume.Replication != nil && b.Volume.converting() == nil && len(reasons) < maxStopReasons {
			reasons = append(reasons, b.String())
		}
	}
	return reasons
}
