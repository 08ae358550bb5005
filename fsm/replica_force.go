package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applyForcePrimary records the decision to promote a replica that may miss acknowledged
// writes, and the generation whose writes may be lost by it (S8, S11). The next grant to
// its host rests on it; it ends when that host reported that it is primary, or when the other one
// goes on instead.
func applyForcePrimary(s *State, m Meta, c *fsmpb.ForcePrimary) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.readyVolume(c.GetVolumeId())
	if rej != nil {
		return nil, rej
	}
	n, ok := s.Node(NodeID(c.GetNodeId()))
	if ok && s.level2() && v.ActiveReplica(n.Host) == nil { // the last copy, whose removal began at level 1 without a record of its state (S71)
		if v, rej = s.withForcedRestored(v, n.Host, c.GetPeerDead(), m); rej != nil {
			return nil, rej
		}
	}
	switch {
	case !ok:
		return nil, Reject(NotFound, "force volume %s: node %s is not known", v.ID, clip(c.GetNodeId()))
	case v.ActiveReplica(n.Host) == nil:
		return nil, Reject(Precondition, "force volume %s: node %s has no replica of it", v.ID, n.ID)
	}
	out := &fsmpb.Outcome{VolumeId: string(v.ID), Generation: v.Replication.Generation}
	requested := ForcedPrimary{Host: n.Host, Index: m.Index, GivenUpGeneration: v.Replication.Generation, Reason: clip(c.GetReason()), PeerDead: c.GetPeerDead()}
	if s.PrimaryHost(v) == n.Host || v.Replication.Forced.sameDecision(&requested) {
		return out, nil
	}
	if o := v.PeerReplica(n.Host); o != nil {
		if rej := s.checkPeerStopped(v, o, requested.PeerDead); rej != nil {
			return nil, rej
		}
	}
	updated := v.withReplication()
	updated.Replication.Forced = &requested
	s.putVolume(updated)
	return out, nil
}

// withForcedRestored is the volume where a leaving replica that is to be forced takes part again: one whose
// removal began at level 1 without a record of its state, or one whose place another has at its site, which
// leaves then. That one must not be in use.
func (s *State) withForcedRestored(v *Volume, host HostID, peerDead bool, m Meta) (*Volume, *Rejection) {
	r, ok := v.restorable()
	if !ok || r.Host != host {
		return v, nil
	}
	rival := s.rivalAtSite(v, &r)
	if rival != nil {
		if rej := s.checkPeerStopped(v, rival, peerDead); rej != nil {
			return nil, rej
		}
		if s.usesReplica(v, rival) {
			return nil, Reject(Precondition, "force volume %s: unpublish it from node %s first, whose replica leaves for it", v.ID, rival.Node)
		}
	}
	restored := s.restoreLeaving(v, &r, rival, m.Index)
	if rival != nil {
		s.beginReplicaChange(&restored, m)
	}
	return &restored, nil
}

// sameDecision tells whether the decision is recorded already.
func (f *ForcedPrimary) sameDecision(requested *ForcedPrimary) bool {
	return f != nil && f.Host == requested.Host && f.GivenUpGeneration == requested.GivenUpGeneration && f.Reason == requested.Reason && f.PeerDead == requested.PeerDead
}

// checkPeerStopped: the peer's host does not write. It ended its use of the volume, or it is
// unreachable and somebody attested that it does not run (S8). One that it is published to and that was not granted
// yet does not write, and gets no grant while its disk has a part of the content only.
func (s *State) checkPeerStopped(v *Volume, peer *Replica, attested bool) *Rejection {
	n, ok := s.nodeOfReplica(peer)
	unreachable := !ok || !n.canBeAsked()
	published := ok && v.Publication(n.ID) != nil && !(s.level2() && s.needsPeersDecision(v, peer))
	switch {
	case !published && v.Teardown(peer.Host) == nil && !s.mayBePrimary(v, peer.Host):
		return nil
	case unreachable && attested:
		return nil
	case unreachable:
		return Reject(Precondition, "force volume %s: host %s may still write to it: attest that it does not run", v.ID, peer.Host)
	}
	return Reject(Precondition, "force volume %s: host %s can be reached and has not ended its use of it", v.ID, peer.Host)
}

// forcedElsewhere tells whether another replica is forced, and somebody attested that this
// host does not run.
func (v *Volume) forcedElsewhere(host HostID) bool {
	r := v.Replication
	return r != nil && r.Forced != nil && r.Forced.Host != host && r.Forced.PeerDead
}

// endForcedElsewhere ends a decision for another replica that was not carried out, as this host goes
// on: the decision gave up what had been written until it was made, not what is written from here on.
func (s *State) endForcedElsewhere(r *Replication, host HostID) {
	if s.level2() && r.Forced != nil && r.Forced.Host != host {
		r.Forced = nil
	}
}
