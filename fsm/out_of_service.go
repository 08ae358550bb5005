package fsm

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applySetOutOfService takes a node out of service, or returns it (S170, S171). Taken out, it is fenced as by an operator, under its
// name: what its host holds ends with this entry, and neither it nor another host under the name gets anything until it returned.
// Nothing is ended where somebody could not go on. Repeated, it changes nothing.
func applySetOutOfService(s *State, m Meta, c *fsmpb.SetOutOfService) (*fsmpb.Outcome, *Rejection) {
	if c.GetReturned() != 0 {
		return s.returnToService(NodeID(c.GetNodeId()), c.GetReturned())
	}
	n, rej := s.nodeOfHost(c.GetNodeId(), c.GetHostId())
	if rej != nil {
		return nil, rej
	}
	if n.OutOfService != 0 {
		return &fsmpb.Outcome{}, nil
	}
	if refused := s.outOfServiceRefusals(n); len(refused) > 0 {
		return nil, Reject(Precondition, "take node %s out of service: %s", n.ID, firstOf(refused))
	}
	updated := *n
	updated.OutOfService = m.Index
	s.putNode(updated)
	s.fenceHost(&updated)
	s.runSweeps()
	return &fsmpb.Outcome{}, nil
}

// returnToService ends what began at the index. A return that came late ends nothing that began after it.
func (s *State) returnToService(node NodeID, since uint64) (*fsmpb.Outcome, *Rejection) {
	n, ok := s.Node(node)
	switch {
	case !ok:
		return nil, Reject(NotFound, "node %s is not known", clip(string(node)))
	case n.OutOfService == 0:
		return &fsmpb.Outcome{}, nil
	case n.OutOfService != since:
		return nil, Reject(StaleEpoch, "node %s is out of service since index %d, not %d", n.ID, n.OutOfService, since)
	case s.returnWaitsFor(n) != "":
		return nil, Reject(Precondition, "return node %s to service: %s", n.ID, s.returnWaitsFor(n))
	}
	updated := *n
	updated.OutOfService = 0
	s.putNode(updated)
	s.liftFence(&updated)
	return &fsmpb.Outcome{}, nil
}

// returnWaitsFor is what keeps the node from returning: its host reported in a session that it ended all that it held, or somebody
// attested that the host is gone. Empty: nothing does.
func (s *State) returnWaitsFor(n *Node) string {
	if n.State == NodeUnreachable {
		return "its host cannot be reached, and did not say that it ended what it held"
	}
	for v := range s.volumesWithTeardownOn(n.ID) {
		return fmt.Sprintf("its host has not ended its use of volume %s", v.ID)
	}
	return ""
}

// outOfServiceRefusals say why a node that is in service cannot be taken out; none: it can.
func (s *State) outOfServiceRefusals(n *Node) (refused []string) {
	switch {
	case n.Incarnation != s.cluster.Incarnation:
		return []string{"it is in adoption mode: what it does is not known until an operator adopts it"}
	case n.State != NodeUnreachable:
		return []string{"its host is not recorded as unreachable: it ends by itself what it is told to end"}
	}
	used := 0
	after := s.afterFailure(Failure{Nodes: []NodeID{n.ID}})
	for v := range s.VolumesOn(n.ID) {
		if !v.isUsedOn(n) {
			continue
		}
		used++
		if why := s.cannotGoOn(after, v, n); why != "" {
			refused = append(refused, fmt.Sprintf("volume %s: %s", v.ID, why))
		}
	}
	if used == 0 {
		return []string{"no volume is in use there: nobody waits for it"}
	}
	return refused
}

// isUsedOn tells whether the node's host may have the volume in use.
func (v *Volume) isUsedOn(n *Node) bool {
	p := v.Publication(n.ID)
	return p != nil && p.Host == n.Host || v.Teardown(n.Host) != nil
}

// cannotGoOn says why no other host could use a volume that the node may have in use; empty where one could.
func (s *State) cannotGoOn(after *failureView, v *Volume, n *Node) string {
	if why := s.neverProven(v, n); why != "" || s.outdatedBy(v, n.Host) != nil {
		return why
	}
	if impact, reason := after.of(v); impact >= ImpactUnavailable {
		return reason
	}
	return ""
}

// firstOf names the first of the reasons, for people.
func firstOf(reasons []string) string {
	text := strings.Join(reasons[:min(len(reasons), maxStopReasons)], "; ")
	if more := len(reasons) - maxStopReasons; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
