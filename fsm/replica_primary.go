package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// applySetPrimary grants a host to make its replica primary, under its publication and in
// this boot (S2, S3). A replica that is not connected becomes primary without its peer only
// if it has every acknowledged write by S5, or under a decision to force it; the peer is
// outdated in the same entry (S8).
func applySetPrimary(s *State, m Meta, c *fsmpb.SetPrimary) (*fsmpb.Outcome, *Rejection) {
	v, n, rej := s.replicaForCommand(c, "set primary")
	if rej != nil {
		return nil, rej
	}
	observed := ReplicaObservationFrom(c.GetSeen())
	if rej := s.checkPromotionRequest(v, n, EpochFrom(c.GetEpoch()), observed); rej != nil {
		return nil, rej
	}
	updated, counts := s.withObservation(v, n, observed)
	if !counts {
		updated = v.withReplication()
	}
	a := &promotionCheck{s: s, priorGeneration: v.Replication.Generation, v: &updated, n: n, r: updated.Replication, own: updated.ActiveReplica(n.Host), peer: updated.PeerReplica(n.Host), observed: observed}
	solo, forced, rej := a.decide()
	if rej != nil {
		return nil, rej
	}
	if !a.alreadyGranted(solo) {
		a.grant(m, solo, forced, EpochFrom(c.GetEpoch()))
	}
	if !updated.sameReplication(v) {
		s.putVolume(updated)
	}
	return &fsmpb.Outcome{VolumeId: string(v.ID), Epoch: c.GetEpoch(), Generation: updated.Replication.Generation, Force: forced}, nil
}

// checkPromotionRequest checks what does not depend on the disks.
func (s *State) checkPromotionRequest(v *Volume, n *Node, epoch Epoch, observed ReplicaObservation) *Rejection {
	p, replica := v.Publication(n.ID), v.Replica(n.Host)
	relation := s.RelationOf(v)
	switch {
	case relation != nil && !relation.isPrimary(n.site()):
		return Reject(Busy, "set primary: site %s of node %s does not have the role of volume %s", n.site(), n.ID, v.ID)
	case v.isCreating():
		return Reject(Busy, "set primary: volume %s is still being created", v.ID)
	case relation != nil && relation.Cut != 0 && observed.Connected() && !observed.Primary:
		return Reject(Busy, "set primary: volume %s waits for the other volumes of its group, which are being disconnected from their peers", v.ID)
	case p == nil || p.Host != n.Host || p.Epoch != epoch:
		return Reject(StaleEpoch, "set primary: volume %s is not published to node %s at epoch %s", v.ID, n.ID, epoch)
	case replica.State != ReplicaPresent:
		return Reject(Precondition, "set primary: the device of volume %s is missing on node %s", v.ID, n.ID)
	case v.Teardown(n.Host) != nil:
		return Reject(Busy, "volume %s: node %s must end the publication of epoch %s first", v.ID, n.ID, v.Teardown(n.Host).Epoch)
	case v.ActiveReplica(n.Host).Observed.Primary && !observed.Primary:
		return Reject(Busy, "set primary: node %s said that volume %s is primary there, and not yet that it is no more", n.ID, v.ID)
	case !v.ActiveReplica(n.Host).isOfAttachment(n, observed) || observed.Unconfigured:
		return Reject(StaleEpoch, "set primary: node %s attached volume %s for the time %d, this was seen in attachment %d", n.ID, v.ID, v.ActiveReplica(n.Host).Attachment, observed.Attachment)
	}
	return nil
}

// promotionCheck is one host's promotion request, with what is recorded of the replicas.
type promotionCheck struct {
	s               *State
	v               *Volume // with the observation of the request
	n               *Node
	priorGeneration uint64 // the generation before that observation was recorded
	r               *Replication
	own, peer       *Replica
	observed        ReplicaObservation
}

// decide says whether the host may be primary, whether without its peer (solo), and whether
// that rests on a decision to force.
func (a *promotionCheck) decide() (solo, forced bool, rej *Rejection) {
	if a.s.PrimaryHost(a.v) == a.n.Host && a.observed.Primary && a.observed.Connected() {
		return false, false, nil // it is primary already
	}
	if a.observed.Generation != a.priorGeneration {
		return false, false, Reject(Busy, "set primary: volume %s was observed under generation %d, %d is current: look again", a.v.ID, a.observed.Generation, a.priorGeneration)
	}
	if rej := a.checkPeerStoodDown(); rej != nil {
		return false, false, rej
	}
	if a.observed.Connected() {
		return false, false, a.checkConnected()
	}
	isPrimary := a.s.PrimaryHost(a.v) == a.n.Host // a forced grant stays forced until its host is primary
	if rej := a.checkSolo(); rej == nil && !isPrimary || !a.mayForce() {
		return rej == nil, false, rej
	}
	return true, true, nil
}

// checkPeerStoodDown: a peer whose publication was revoked ended its use, or cannot write any
// more: this host has disconnected it and does not reconnect (S8).
func (a *promotionCheck) checkPeerStoodDown() *Rejection {
	if a.peer == nil || a.v.Teardown(a.peer.Host) == nil || plantedbug.Is(plantedbug.TakeoverNotAwaited) {
		return nil
	}
	reachable := a.s.replicaReachable(a.peer)
	switch {
	case !a.peer.Outdated && reachable:
		return Reject(Busy, "set primary: volume %s waits for host %s to end its publication", a.v.ID, a.peer.Host)
	case a.observed.Connection != fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE:
		return Reject(Busy, "set primary: volume %s must be disconnected from host %s first", a.v.ID, a.peer.Host)
	}
	return nil
}

// checkConnected: the peer gets every write from now on, so the replica itself must be recorded
// as up to date. A sync source has every write as well: the two kernels compared their
// contents, and every acknowledged write is on one of them.
func (a *promotionCheck) checkConnected() *Rejection {
	switch {
	case a.own.Outdated:
		return a.rejectOutdated()
	case a.observed.Disk != fsmpb.DiskState_DISK_STATE_UP_TO_DATE:
		return Reject(Busy, "set primary: the replica of volume %s on node %s is %s", a.v.ID, a.n.ID, diskName(a.observed.Disk))
	case a.own.failedNow():
		return Reject(Busy, "set primary: the replica of volume %s on node %s is to be copied: its kernel gave its disk up", a.v.ID, a.n.ID)
	case !a.own.UpToDate && a.observed.Connection != fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE:
		return Reject(Busy, "set primary: volume %s waits for its replicas to be seen together", a.v.ID)
	}
	return nil
}

// checkSolo is S5: whether the replica has every acknowledged write although it is not
// connected to its peer.
func (a *promotionCheck) checkSolo() *Rejection {
	const upToDate, consistent = fsmpb.DiskState_DISK_STATE_UP_TO_DATE, fsmpb.DiskState_DISK_STATE_CONSISTENT
	diskUpToDate := a.observed.Disk == upToDate
	switch {
	case a.own.Outdated:
		return a.rejectOutdated()
	case a.own.DiskFailed != 0:
		return Reject(Precondition, "set primary: volume %s on node %s waits for its peer: its kernel gave its disk up, which may miss writes that were acknowledged", a.v.ID, a.n.ID)
	case a.observed.Disk >= consistent && plantedbug.Is(plantedbug.ConsistentPromoted):
		return nil
	case diskUpToDate && a.own.UpToDate && (a.r.Protocol != fsmpb.Protocol_PROTOCOL_A || a.peer != nil && a.peer.Outdated):
		return nil // (i) in this attachment
	case diskUpToDate && a.own.SoloPrimaryUUID.Value != 0 && a.own.SoloPrimaryUUID.Value == a.observed.UUID && (a.peer == nil || a.peer.Outdated):
		return nil // (ii) it was primary without its peer, and its kernel knows that too
	case (diskUpToDate || a.observed.Disk == consistent) && a.own.InSyncUUID.Value != 0 && a.own.InSyncUUID.Value == a.observed.UUID:
		return nil // (iii) no host wrote since both had this content
	case a.observed.Disk == consistent && a.own.UpToDate && a.s.PrimaryHost(a.v) == a.n.Host:
		return nil // (iii) again: it was granted by that, and was not primary yet
	}
	return Reject(Precondition, "set primary: volume %s on node %s waits for its peer: its disk is %s and may miss writes that were acknowledged",
		a.v.ID, a.n.ID, diskName(a.observed.Disk))
}

func (a *promotionCheck) rejectOutdated() *Rejection {
	return Reject(Precondition, "set primary: the replica of volume %s on node %s is outdated: its peer went on without it", a.v.ID, a.n.ID)
}

// mayForce: there is a decision to force this replica, and its disk is consistent at least.
// The peer is checked again, as it may be reachable by now (S8).
func (a *promotionCheck) mayForce() bool {
	f := a.r.Forced
	usable := a.observed.Disk >= fsmpb.DiskState_DISK_STATE_OUTDATED || a.observed.Disk == fsmpb.DiskState_DISK_STATE_INCONSISTENT && a.r.isReverted(a.n.Host)
	return f != nil && f.Host == a.n.Host && usable &&
		(a.peer == nil || a.s.checkPeerStopped(a.v, a.peer, f.PeerDead) == nil)
}

// alreadyGranted tells whether the host is primary by a grant that records all that a new one
// would. A host that is not primary yet gets a new grant with each request, so that a late
// report that it is secondary cannot relinquish a later grant.
func (a *promotionCheck) alreadyGranted(solo bool) bool {
	if a.s.PrimaryHost(a.v) != a.n.Host || !a.observed.Primary {
		return false
	}
	return !solo || a.own.UpToDate && (a.peer == nil || a.peer.Outdated)
}

// grant makes the host the only one that may be primary. Every grant begins a new generation,
// so that earlier observations prove nothing (S7), and clears the recorded UUIDs, but for the
// one that this host has as a solo primary.
func (a *promotionCheck) grant(m Meta, solo, forced bool, epoch Epoch) {
	r := a.r
	done := r.Primary != nil && r.Primary.Epoch == epoch && r.Primary.Done
	r.Primary = &PrimaryGrant{Node: a.n.ID, Host: a.n.Host, Boot: a.n.Boot, Epoch: epoch, Index: m.Index, Done: done}
	r.Generation, r.LastGrantIndex = m.Index, m.Index
	a.own.InSyncUUID = RecordedUUID{}
	if a.peer != nil {
		a.peer.InSyncUUID, a.peer.SoloPrimaryUUID = RecordedUUID{}, RecordedUUID{}
	}
	a.own.clearOutdated()
	a.s.endForcedElsewhere(r, a.n.Host)
	if r.Revert != nil && r.Revert.Host != a.n.Host {
		r.Revert = nil
	}
	if forced {
		a.useAsItIs()
	}
	if solo && a.peer != nil {
		was := *a.peer.ReplicaSync
		a.peer.markOutdated(a.v.Crypt)
		a.s.noteOutdated(a.v, a.peer, was)
	}
}

// useAsItIs: it was decided to use the replica with what it has. Where its disk failed no bitmap names the
// blocks that it lost, and its peer has them still: the peer is to be copied completely (S67).
func (a *promotionCheck) useAsItIs() {
	if a.own.DiskFailed != 0 && a.peer != nil && a.peer.DiskFailed == 0 && a.s.level2() {
		a.peer.DiskFailed = a.peer.Attachment
	}
	a.own.DiskFailed = 0
}

// diskName is DRBD's name of the disk state, for people.
func diskName(d fsmpb.DiskState) string {
	names := [...]string{"unknown", "diskless", "attaching", "failed", "negotiating", "inconsistent", "outdated", "consistent", "up to date"}
	if d < 0 || int(d) >= len(names) {
		return "unknown"
	}
	return names[d]
}
