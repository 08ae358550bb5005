package fsm

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A takeover of a replicated volume (S8) spans two calls: unpublishing from an unreachable host
// is done once the former primary is isolated, and publishing to the other host once its
// replica is promoted. A volume that is not replicated waits for neither.

// VolumePublication tells whether the node's replica is primary under the publication of the
// epoch, and what it waits for while it is not. Busy: that publication was ended. Unreachable:
// the node is.
func (s *State) VolumePublication(id VolumeID, node NodeID, epoch Epoch) (done bool, waitsFor string, rej *Rejection) {
	v, ok := s.Volume(id)
	switch {
	case !ok:
		return false, "", UnknownVolume(id)
	case v.Replication == nil:
		return true, "", nil
	}
	switch p := v.Publication(node); {
	case p == nil || p.Epoch != epoch:
		return false, "", Reject(Busy, "publish volume %s: its publication to node %s was ended meanwhile; retry", id, node)
	case s.PromotionDone(v, node):
		return true, "", nil
	case !s.HostReachable(node, p.Host):
		return false, "", Reject(Unreachable, "publish volume %s: node %s cannot be reached now", id, node)
	}
	return false, s.takeoverWaitsFor(v) + s.decisionNeeded(v, v.Publication(node).Host), nil
}

// decisionNeeded says which decision of an operator lets the host's replica go on; empty where none
// is needed. Its disk may lack writes, and nobody is left, or comes back by itself, who has them.
func (s *State) decisionNeeded(v *Volume, host HostID) string {
	own := v.ActiveReplica(host)
	if own == nil || v.Teardown(host) != nil || own.Observed.Connected() && !s.waitInVain(v, own) {
		return ""
	}
	if s.needsPeersDecision(v, own) {
		peer := v.PeerReplica(host)
		return fmt.Sprintf("; its disk has a part of the content only, and %s: if what that one has is enough, `holdfast volumes force-primary %s %s` lets this one be copied from it", whyPeerWaits(peer), v.ID, peer.Node)
	}
	why := s.whyNobodyElse(v, own)
	if why == "" || v.Replication.Forced != nil && v.Replication.Forced.Host == host {
		return ""
	}
	return fmt.Sprintf("; %s, `holdfast volumes force-primary %s %s` lets it go on with what it has", why, v.ID, own.Node)
}

// needsPeersDecision: the replica's disk has a part of the content only, with which it cannot go on, and its peer has more, but its
// disk failed, or this replica was chosen instead before it lost its content. By a decision the peer is attached as it is, and
// copied from.
func (s *State) needsPeersDecision(v *Volume, own *Replica) bool {
	peer, forced := v.PeerReplica(own.Host), v.Replication.Forced
	if peer == nil || own.Observed.Disk != fsmpb.DiskState_DISK_STATE_INCONSISTENT || !s.isUnused(v) {
		return false
	}
	if forced != nil && forced.Host == own.Host {
		return s.isSettled(peer) && peer.Observed.Disk > fsmpb.DiskState_DISK_STATE_INCONSISTENT
	}
	return peer.diskGone() && !peer.Outdated && (forced == nil || forced.Host != peer.Host)
}

func whyPeerWaits(peer *Replica) string {
	if peer.diskGone() {
		return fmt.Sprintf("that of the replica on node %s, which it waits for, was given up", peer.Node)
	}
	return fmt.Sprintf("an operator chose it to go on instead of the replica on node %s", peer.Node)
}

// isSettled: the replica's host is reachable, and its kernel has the disk in the attachment that is recorded.
func (s *State) isSettled(l *Replica) bool {
	n, ok := s.nodeOfReplica(l)
	return ok && n.canBeAsked() && l.isOfAttachment(n, l.Observed) && l.Observed.hasDisk()
}

// waitInVain: neither of the disks can be copied from the other: one failed and is
// not attached, and the log does not know that the other has every write. One that its kernel calls UpToDate, and that
// did not fail itself, is copied from (S67).
func (s *State) waitInVain(v *Volume, own *Replica) bool {
	peer := v.PeerReplica(own.Host)
	if peer == nil || !s.isUnused(v) {
		return false
	}
	noSource := func(l *Replica) bool {
		return !l.UpToDate && (l.DiskFailed != 0 || l.Observed.Disk != fsmpb.DiskState_DISK_STATE_UP_TO_DATE)
	}
	return own.diskGone() && noSource(peer) || peer.diskGone() && noSource(own)
}

// apartInVain: they do so without being connected: a host that was booted again does not attach a failed disk
// before its peer is known to have every write, and that one's kernel cannot tell.
func (s *State) apartInVain(v *Volume, own, peer *Replica) bool {
	settled := s.isSettled(own) && s.replicaReachable(peer) || s.isSettled(peer) && s.replicaReachable(own)
	return settled && s.waitInVain(v, own)
}

// whyNobodyElse says why no other replica lets this one go on; empty where one may, or where it needs none.
func (s *State) whyNobodyElse(v *Volume, own *Replica) string {
	n, ok := s.nodeOfReplica(own)
	if !ok {
		return ""
	}
	peer := v.PeerReplica(own.Host)
	a := &promotionCheck{s: s, v: v, n: n, r: v.Replication, own: own, peer: peer, observed: own.Observed}
	attached := own.isOfAttachment(n, own.Observed) && own.Observed.Disk >= fsmpb.DiskState_DISK_STATE_OUTDATED && a.checkSolo() != nil
	failed := own.DiskFailed != 0 && !own.Outdated
	inVain := peer != nil && (own.Observed.Connected() || s.apartInVain(v, own, peer))
	forced := v.Replication.Forced
	switch {
	case peer == nil && failed:
		return "its disk was given up, and no other replica is left: if what it has is enough"
	case peer != nil && peer.DiskFailed != 0 && failed:
		return fmt.Sprintf("its disk was given up, and that of the replica on node %s too: if what it has is enough", peer.Node)
	case peer == nil && attached:
		return "no other replica is left: if what it has is enough"
	case peer != nil && peer.Outdated && failed:
		return fmt.Sprintf("its disk was given up, and the replica on node %s is outdated: if what it has is enough", peer.Node)
	case peer != nil && attached && forced != nil && forced.Host == peer.Host:
		return fmt.Sprintf("an operator chose the replica on node %s to go on: publish the volume there, or if what this one has is enough", peer.Node)
	case inVain && failed:
		return fmt.Sprintf("its disk was given up, and it is not known whether the replica on node %s has every write: if what both have is enough", peer.Node)
	case inVain && peer.DiskFailed != 0:
		return fmt.Sprintf("the disk of the replica on node %s, which it waits for, was given up: if what this one has is enough", peer.Node)
	case peer != nil && (attached || failed) && !s.replicaReachable(peer):
		return fmt.Sprintf("node %s, whose replica it waits for, cannot be reached: if that is gone for good", peer.Node)
	}
	return ""
}

// VolumeIsolation tells whether every former primary on the node, or on all when it is empty,
// is isolated, so that the publications that ended have no effect any more; and what is waited
// for while one is not. A reachable host ends its publication by itself.
func (s *State) VolumeIsolation(id VolumeID, node NodeID) (done bool, waitsFor string) {
	return s.volumeIsolation(endpoint{}, id, node)
}

func (s *State) volumeIsolation(at endpoint, id VolumeID, node NodeID) (done bool, waitsFor string) {
	v, ok := s.Volume(id)
	if !ok || v.Replication == nil || !v.isKnown() { // no node is published it again
		return true, ""
	}
	for _, t := range v.Teardowns {
		if !s.concerns(at, node, t.Node) || s.HostReachable(t.Node, t.Host) {
			continue
		}
		if !s.FormerPrimaryIsolated(v.ID) {
			return false, s.takeoverWaitsFor(v)
		}
	}
	return true, ""
}

// takeoverWaitsFor is what a replicated volume waits for, in words.
func (s *State) takeoverWaitsFor(v *Volume) string {
	if c := s.ReplicationCondition(v); c.Abnormal {
		return c.Message
	}
	if op := v.OperationOf(OpTeardown); op.stepFailed() {
		return op.LastError
	}
	for _, t := range v.Teardowns {
		return fmt.Sprintf("node %s has not ended its use of it", t.Node)
	}
	return "its host has not said so yet"
}

// UnpublishProgress is what an unpublish call waits for within its deadline. The call does not
// fail for what is not done by then: the volume's hosts finish it later.
type UnpublishProgress struct {
	// Held are the publications that are left of those that the actor ends.
	Held []Publication
	// Unstaging: a reachable host has it staged, and was not requested to unstage it. The
	// report that it is unstaged may be on its way (S31).
	Unstaging bool
	// Ending: a reachable host has it staged, and did not report what uses it.
	Ending bool
	// TearingDown: the volume is unpublished, and the reachable host of its single replica has
	// a teardown of which no step failed.
	TearingDown bool
}

// UnpublishProgress is how far the end of the node's publication is, or of all when node is
// empty, that the actor asks for.
func (s *State) UnpublishProgress(actor string, id VolumeID, node NodeID) UnpublishProgress {
	return s.unpublishProgress(actor, endpoint{}, id, node)
}

func (s *State) unpublishProgress(actor string, at endpoint, id VolumeID, node NodeID) UnpublishProgress {
	v, ok := s.Volume(id)
	if !ok {
		return UnpublishProgress{}
	}
	x := UnpublishProgress{Held: s.publicationsOn(actor, at, v, node, Epoch{}), TearingDown: s.isTearingDown(at, v, node)}
	for i := range x.Held {
		p := &x.Held[i]
		working := p.Staging != nil && s.HostReachable(p.Node, p.Host)
		x.Unstaging = x.Unstaging || working && !p.Ending
		x.Ending = x.Ending || working && p.UsedBy == ""
	}
	return x
}

func (s *State) isTearingDown(at endpoint, v *Volume, node NodeID) bool {
	if v.Replicated() || v.OperationOf(OpTeardown).stepFailed() {
		return false
	}
	for _, t := range v.Teardowns {
		if s.concerns(at, node, t.Node) && s.HostReachable(t.Node, t.Host) {
			return true
		}
	}
	return false
}

// stepFailed tells whether a step of the operation failed.
func (o *Operation) stepFailed() bool { return o != nil && o.LastError != "" }
