package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// hostOf finds a node that is the host named, and was not lost.
func (s *State) hostOf(node, host string) (*Node, *Rejection) {
	n, ok := s.Node(NodeID(node))
	switch {
	case !ok:
		return nil, Reject(NotFound, "node %s is not known", node)
	case n.Host != HostID(host):
		return nil, Reject(StaleEpoch, "node %s is host %s, not %s", node, n.Host, host)
	case n.State == NodeLost:
		return nil, Reject(StaleEpoch, "host %s of node %s was recorded as lost", host, node)
	}
	return n, nil
}

// bootOf finds a node that is the host and the boot named.
func (s *State) bootOf(node, host, boot string) (*Node, *Rejection) {
	n, rej := s.hostOf(node, host)
	if rej == nil && n.Boot != boot {
		rej = Reject(StaleEpoch, "node %s was booted again: %s is not its current boot", node, boot)
	}
	return n, rej
}

// applySetNodeReachable records that a host's session was lost or came back (S25).
func applySetNodeReachable(s *State, _ Meta, c *fsmpb.SetNodeReachable) (*fsmpb.Outcome, *Rejection) {
	n, rej := s.hostOf(c.GetNodeId(), c.GetHostId())
	if rej != nil {
		return nil, rej
	}
	state := NodeUnreachable
	if c.GetReachable() {
		state = NodeReachable
	}
	if n.State == state {
		return &fsmpb.Outcome{}, nil
	}
	now := *n
	now.State = state
	s.putNode(now)
	s.newSight(n)
	s.sweep()
	if state == NodeUnreachable {
		s.giveUpOn(n.ID, Unreachable, "node "+string(n.ID)+" cannot be reached")
	}
	s.touchWide(n.ID)
	return &fsmpb.Outcome{}, nil
}

// applyScheduleNode records whether an operator wants new volumes and replicas here.
func applyScheduleNode(s *State, _ Meta, c *fsmpb.ScheduleNode) (*fsmpb.Outcome, *Rejection) {
	n, rej := s.hostOf(c.GetNodeId(), c.GetHostId())
	if rej != nil {
		return nil, rej
	}
	if n.Cordoned != c.GetCordoned() {
		now := *n
		now.Cordoned = c.GetCordoned()
		s.putNode(now)
	}
	return &fsmpb.Outcome{}, nil
}

// applyAdoptNode ends a host's adoption mode (S1).
func applyAdoptNode(s *State, _ Meta, c *fsmpb.AdoptNode) (*fsmpb.Outcome, *Rejection) {
	n, rej := s.hostOf(c.GetNodeId(), c.GetHostId())
	if rej != nil {
		return nil, rej
	}
	if at := s.cluster.Incarnation; c.GetIncarnation() != at {
		return nil, Reject(Precondition, "adopt node %s for incarnation %d: the cluster is at %d", n.ID, c.GetIncarnation(), at)
	}
	if n.Incarnation == c.GetIncarnation() {
		return &fsmpb.Outcome{}, nil
	}
	now := *n
	now.Incarnation = c.GetIncarnation()
	s.putNode(now)
	s.touchWide(n.ID)
	return &fsmpb.Outcome{}, nil
}

// applyLoseNode records that a host and its data are gone for good: whatever it
// held or owed ends with it (S105).
func applyLoseNode(s *State, _ Meta, c *fsmpb.LoseNode) (*fsmpb.Outcome, *Rejection) {
	n, ok := s.Node(NodeID(c.GetNodeId()))
	switch {
	case !ok:
		return nil, Reject(NotFound, "node %s is not known", c.GetNodeId())
	case n.Host != HostID(c.GetHostId()):
		return nil, Reject(StaleEpoch, "node %s is host %s, not %s", n.ID, n.Host, c.GetHostId())
	case n.State == NodeLost:
		return &fsmpb.Outcome{}, nil
	}
	reason := clip("host " + string(n.Host) + " of node " + string(n.ID) + " was recorded as lost: " + c.GetReason())
	now := *n
	now.State = NodeLost
	if s.level2() {
		s.giveUpOn(n.ID, Precondition, reason)
		s.loseGivenUp(n, reason)
		s.putNode(now)
		s.beginSweep(SweepLost, n, reason)
		s.touchWide(n.ID) // who waits for a volume that it held is not told of each at once
		s.sweep()
		return &fsmpb.Outcome{}, nil
	}
	s.loseVolumes(n, reason)
	s.loseSnapshots(n, reason)
	s.putNode(now)
	return &fsmpb.Outcome{}, nil
}

// loseVolumes ends at once what a lost host held and owed of volumes.
func (s *State) loseVolumes(n *Node, reason string) {
	for _, v := range slices.Collect(s.VolumesOn(n.ID)) {
		if now, kept := s.withoutHost(v, n.ID, n.Host, s.epoch(), reason); kept {
			s.putVolume(now)
		} else {
			s.removeVolume(v.ID)
		}
	}
}

// withoutHost is the volume without what a lost host held and owed of it; false when
// nothing is left of it.
func (s *State) withoutHost(v *Volume, node NodeID, host HostID, at Epoch, reason string) (Volume, bool) {
	now := v.withoutLeg(host, at.Index)
	now.Replicas = v.replicasWithout(host)
	now.Teardowns = v.teardownsWithout(host)
	if v.Publication(node) != nil {
		now = now.withoutPublication(node)
	}
	if now.allGone() {
		if _, deleting := v.Phase.(Deleting); deleting || s.level2() && (v.creating() || v.failed() && v.Operation != nil) {
			return now, false
		}
		now.Phase, now.Operation, now.Beside = Failed{Reason: reason}, nil, nil
		now.Condition = Condition{Abnormal: true, Message: reason}
	} else if v.Replicated() {
		s.oneLost(&now, host, at, reason)
	}
	if s.level2() {
		now = now.withoutLeft(host)
		now = now.takenBack(at.Index)
		now.settleLimits() // whoever was to put them in force is gone
	}
	s.settle(&now)
	return now, true
}
