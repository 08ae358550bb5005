package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// nodeOfHost finds the node when it still is the named host, and was not lost.
func (s *State) nodeOfHost(node, host string) (*Node, *Rejection) {
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

// nodeOfBoot finds the node when it still is the named host in the named boot.
func (s *State) nodeOfBoot(node, host, boot string) (*Node, *Rejection) {
	n, rej := s.nodeOfHost(node, host)
	if rej == nil && n.Boot != boot && !plantedbug.Is(plantedbug.EarlierBootAccepted) {
		rej = Reject(StaleEpoch, "node %s was booted again: %s is not its current boot", node, boot)
	}
	return n, rej
}

// HostReachable tells whether the node is still that host, recorded as reachable and not fenced, so
// that it can be asked for something.
func (s *State) HostReachable(node NodeID, host HostID) bool {
	n, ok := s.Node(node)
	return ok && n.Host == host && n.canBeAsked()
}

// applySetNodeReachable records that a host's session was lost or came back (S25).
func applySetNodeReachable(s *State, _ Meta, c *fsmpb.SetNodeReachable) (*fsmpb.Outcome, *Rejection) {
	n, rej := s.nodeOfHost(c.GetNodeId(), c.GetHostId())
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
	updated := *n
	updated.State = state
	s.putNode(updated)
	s.bumpGenerations(n)
	s.runSweeps()
	if state == NodeUnreachable {
		s.abortGroupsOn(n.ID, Unreachable, "node "+string(n.ID)+" cannot be reached")
	}
	s.wakeWaiters(n.ID)
	return &fsmpb.Outcome{}, nil
}

// applyScheduleNode records whether an operator wants new volumes and replicas here.
func applyScheduleNode(s *State, _ Meta, c *fsmpb.ScheduleNode) (*fsmpb.Outcome, *Rejection) {
	n, rej := s.nodeOfHost(c.GetNodeId(), c.GetHostId())
	if rej != nil {
		return nil, rej
	}
	if n.Cordoned != c.GetCordoned() {
		updated := *n
		updated.Cordoned = c.GetCordoned()
		s.putNode(updated)
	}
	return &fsmpb.Outcome{}, nil
}

// applyAdoptNode ends a host's adoption mode (S1).
func applyAdoptNode(s *State, _ Meta, c *fsmpb.AdoptNode) (*fsmpb.Outcome, *Rejection) {
	n, rej := s.nodeOfHost(c.GetNodeId(), c.GetHostId())
	if rej != nil {
		return nil, rej
	}
	if at := s.cluster.Incarnation; c.GetIncarnation() != at {
		return nil, Reject(Precondition, "adopt node %s for incarnation %d: the cluster is at %d", n.ID, c.GetIncarnation(), at)
	}
	if n.Incarnation == c.GetIncarnation() {
		return &fsmpb.Outcome{}, nil
	}
	updated := *n
	updated.Incarnation = c.GetIncarnation()
	s.putNode(updated)
	s.wakeWaiters(n.ID)
	s.grantAdopted(n.ID)
	return &fsmpb.Outcome{}, nil
}

// applyLoseNode records that a host and its data are gone for good: what it held and its
// pending teardowns and removals end with it (S105).
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
	updated := *n
	updated.State, updated.Maintenance = NodeLost, 0
	if s.level2() {
		s.abortGroupsOn(n.ID, Precondition, reason)
		s.loseAbortedGroups(n, reason)
		s.putNode(updated)
		s.beginSweep(SweepLost, n, reason)
		s.leaveGroupsAfterLoss()
		s.endAheadAfterLoss()
		s.wakeWaiters(n.ID) // callers that wait for one of its volumes are woken now, not batch by batch
		s.runSweeps()
		return &fsmpb.Outcome{}, nil
	}
	s.loseVolumes(n, reason)
	s.loseSnapshots(n, reason)
	s.putNode(updated)
	return &fsmpb.Outcome{}, nil
}

// loseVolumes ends at once what a lost host held of volumes, and its pending teardowns and removals.
func (s *State) loseVolumes(n *Node, reason string) {
	for _, v := range slices.Collect(s.VolumesOn(n.ID)) {
		if updated, remains := s.withoutLostHost(v, n.ID, n.Host, s.epoch(), reason); remains {
			s.putVolume(updated)
		} else {
			s.removeVolume(v.ID)
		}
	}
}

// withoutLostHost is the volume without its lost host's replica, publication and teardown; false
// when nothing is left of it.
func (s *State) withoutLostHost(v *Volume, node NodeID, host HostID, at Epoch, reason string) (Volume, bool) {
	updated := v.withoutReplicaSync(host, at.Index)
	updated.Replicas = updated.replicasWithout(host)
	updated.Teardowns = v.teardownsWithout(host)
	if v.Publication(node) != nil {
		updated = updated.withoutPublication(node)
	}
	if updated.allGone() {
		if _, deleting := v.Phase.(Deleting); deleting || s.level2() && (v.isCreating() || v.isFailed() && v.Operation != nil) {
			return updated, false
		}
		updated.fail(reason)
	} else if v.Replicated() {
		s.loseOneReplica(&updated, host, at, reason)
	}
	_, ready := updated.Phase.(Ready)
	switch isSeed := ready && v.converting() != nil && v.Replication.Seed == host; {
	case isSeed && v.ConversionInDoubt() && v.PeerReplica(host).State == ReplicaPresent:
		updated = updated.withSecondRemaining(at.Index)
	case isSeed:
		updated = updated.withSeedLost(reason, at.Index)
	}
	if v.Unconverted != nil {
		updated = updated.withoutLostRest(host)
	}
	if s.level2() {
		updated = updated.withoutLeaving(host)
		updated = s.withLeavingRestored(&updated, at.Index)
		updated.finishModify() // the host that was to put them in force is gone
	}
	s.finishOperations(&updated)
	return updated, true
}
