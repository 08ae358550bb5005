package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// applySetPrimary grants a host the right to make its replica primary, under its
// publication and in this boot (S2, S3). A replica that is not connected goes on
// without its peer: only when S5 says that it has every acknowledged write, or under
// a recorded decision to force; the peer is outdated in the same entry (S8).
func applySetPrimary(s *State, m Meta, c *fsmpb.SetPrimary) (*fsmpb.Outcome, *Rejection) {
	v, n, rej := s.replicaOf(c, "set primary")
	if rej != nil {
		return nil, rej
	}
	seen := ReplicaSeenFrom(c.GetSeen())
	if rej := s.mayAskForPrimary(v, n, epochFrom(c.GetEpoch()), seen); rej != nil {
		return nil, rej
	}
	now, counts := s.withSeen(v, n, seen)
	if !counts {
		now = v.withReplication()
	}
	a := &asking{s: s, known: v.Replication.Generation, v: &now, n: n, r: now.Replication, own: now.Leg(n.Host), other: now.OtherLeg(n.Host), seen: seen}
	alone, forced, rej := a.decide()
	if rej != nil {
		return nil, rej
	}
	if !a.granted(alone) {
		a.grant(m, alone, forced, epochFrom(c.GetEpoch()))
	}
	if !now.Replication.equal(v.Replication) {
		s.putVolume(now)
	}
	return &fsmpb.Outcome{VolumeId: string(v.ID), Epoch: c.GetEpoch(), Generation: now.Replication.Generation, Force: forced}, nil
}

// mayAskForPrimary checks what does not depend on the disks.
func (s *State) mayAskForPrimary(v *Volume, n *Node, epoch Epoch, seen ReplicaSeen) *Rejection {
	p, replica := v.Publication(n.ID), v.Replica(n.Host)
	switch {
	case v.creating():
		return Reject(Busy, "set primary: volume %s is still being created", v.ID)
	case p == nil || p.Host != n.Host || p.Epoch != epoch:
		return Reject(StaleEpoch, "set primary: volume %s is not published to node %s at epoch %s", v.ID, n.ID, epoch)
	case replica.State != ReplicaPresent:
		return Reject(Precondition, "set primary: the device of volume %s is missing on node %s", v.ID, n.ID)
	case v.Teardown(n.Host) != nil:
		return Reject(Busy, "volume %s: node %s must end the publication of epoch %s first", v.ID, n.ID, v.Teardown(n.Host).Epoch)
	case v.Leg(n.Host).Seen.Primary && !seen.Primary:
		return Reject(Busy, "set primary: node %s said that volume %s is primary there, and not yet that it is no more", n.ID, v.ID)
	case !v.Leg(n.Host).matches(n, seen) || seen.Down:
		return Reject(StaleEpoch, "set primary: node %s attached volume %s for the time %d, this was seen in attachment %d", n.ID, v.ID, v.Leg(n.Host).Attach, seen.Attach)
	}
	return nil
}

// asking is one host's question to be primary, with what the log knows.
type asking struct {
	s          *State
	v          *Volume // with what was seen
	n          *Node
	known      uint64 // the generation before that was taken in
	r          *Replication
	own, other *Leg
	seen       ReplicaSeen
}

// decide says whether the host may be primary, whether without its peer, and whether
// that rests on a decision to force.
func (a *asking) decide() (alone, forced bool, rej *Rejection) {
	if a.s.Holder(a.v) == a.n.Host && a.seen.Primary && a.seen.Connected() {
		return false, false, nil // it is, and asks again
	}
	if a.seen.Generation != a.known {
		return false, false, Reject(Busy, "set primary: volume %s was observed under generation %d, %d is current: look again", a.v.ID, a.seen.Generation, a.known)
	}
	if rej := a.peerGaveUp(); rej != nil {
		return false, false, rej
	}
	if a.seen.Connected() {
		return false, false, a.connected()
	}
	again := a.s.Holder(a.v) == a.n.Host // what was forced is forced until it was carried out
	if rej := a.alone(); rej == nil && !again || !a.forcible() {
		return rej == nil, false, rej
	}
	return true, true, nil
}

// peerGaveUp: a peer that may still be primary has ended that, or cannot write any
// more: it was outdated, or this host has cut the connection for good (S8).
func (a *asking) peerGaveUp() *Rejection {
	if a.other == nil || a.v.Teardown(a.other.Host) == nil {
		return nil
	}
	reachable := a.s.reachable(a.v, a.other)
	switch {
	case !a.other.Outdated && reachable:
		return Reject(Busy, "set primary: volume %s waits for host %s to end its publication", a.v.ID, a.other.Host)
	case a.seen.Connection != fsmpb.ConnectionState_CONNECTION_STATE_STAND_ALONE:
		return Reject(Busy, "set primary: volume %s must be disconnected from host %s first", a.v.ID, a.other.Host)
	}
	return nil
}

// connected: its peer shares every write from here on, so it must be up to date itself,
// by the log's word. One from which its kernel synchronises the other has everything as
// well: the two kernels compared their contents, and what was acknowledged is on one of
// them.
func (a *asking) connected() *Rejection {
	switch {
	case a.own.Outdated:
		return a.lost()
	case a.seen.Disk != fsmpb.DiskState_DISK_STATE_UP_TO_DATE:
		return Reject(Busy, "set primary: the replica of volume %s on node %s is %s", a.v.ID, a.n.ID, diskName(a.seen.Disk))
	case !a.own.UpToDate && a.seen.Connection != fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE:
		return Reject(Busy, "set primary: volume %s waits for its replicas to be seen together", a.v.ID)
	}
	return nil
}

// alone is S5: which replica has every acknowledged write although it does not meet
// its peer.
func (a *asking) alone() *Rejection {
	const upToDate, consistent = fsmpb.DiskState_DISK_STATE_UP_TO_DATE, fsmpb.DiskState_DISK_STATE_CONSISTENT
	whole := a.seen.Disk == upToDate
	switch {
	case a.own.Outdated:
		return a.lost()
	case a.own.DiskFailed != 0:
		return Reject(Precondition, "set primary: volume %s on node %s waits for its peer: its kernel gave its disk up, which may miss writes that were acknowledged", a.v.ID, a.n.ID)
	case whole && a.own.UpToDate && (a.r.Protocol != fsmpb.Protocol_PROTOCOL_A || a.other != nil && a.other.Outdated):
		return nil // (i) in this attachment
	case whole && a.own.Alone.UUID != 0 && a.own.Alone.UUID == a.seen.UUID && (a.other == nil || a.other.Outdated):
		return nil // (ii) it went on alone, and its kernel knows that too
	case (whole || a.seen.Disk == consistent) && a.own.Settled.UUID != 0 && a.own.Settled.UUID == a.seen.UUID:
		return nil // (iii) nobody wrote since both had this content
	case a.seen.Disk == consistent && a.own.UpToDate && a.s.Holder(a.v) == a.n.Host:
		return nil // (iii) again: it was granted so, and was not primary yet
	}
	return Reject(Precondition, "set primary: volume %s on node %s waits for its peer: its disk is %s and may miss writes that were acknowledged",
		a.v.ID, a.n.ID, diskName(a.seen.Disk))
}

func (a *asking) lost() *Rejection {
	return Reject(Precondition, "set primary: the replica of volume %s on node %s is outdated: its peer went on without it", a.v.ID, a.n.ID)
}

// forcible: an operator recorded that this replica goes on, and its content is of one
// instant at least. A peer that came back meanwhile is not dead (S8).
func (a *asking) forcible() bool {
	f := a.r.Forced
	return f != nil && f.Host == a.n.Host && a.seen.Disk >= fsmpb.DiskState_DISK_STATE_OUTDATED &&
		(a.other == nil || a.s.peerStopped(a.v, a.other, f.PeerDead) == nil)
}

// granted tells whether the host is primary by a grant that says all that would be
// granted now. One that is not primary yet gets a new grant each time that it asks: so
// that its word of an earlier end cannot give a later grant back, however late it comes.
func (a *asking) granted(alone bool) bool {
	if a.s.Holder(a.v) != a.n.Host || !a.seen.Primary {
		return false
	}
	return !alone || a.own.UpToDate && (a.other == nil || a.other.Outdated)
}

// grant makes the host the only one that may be primary. Every grant begins a new
// generation, so that what was seen before it proves nothing after it (S7), and no
// content that was known counts any more but what this host itself went on with.
func (a *asking) grant(m Meta, alone, forced bool, epoch Epoch) {
	r := a.r
	done := r.Primary != nil && r.Primary.Epoch == epoch && r.Primary.Done
	r.Primary = &Primary{Node: a.n.ID, Host: a.n.Host, Boot: a.n.Boot, Epoch: epoch, Index: m.Index, Done: done}
	r.Generation, r.Granted = m.Index, m.Index
	a.own.Settled = KnownUUID{}
	if a.other != nil {
		a.other.Settled, a.other.Alone = KnownUUID{}, KnownUUID{}
	}
	a.own.UpToDate, a.own.Outdated, a.own.NotKept = true, false, ""
	if forced {
		a.own.DiskFailed = 0 // it goes on as it is, by a decision
	}
	if alone && a.other != nil {
		a.other.outdated()
	}
}

// diskName is the state as DRBD writes it, for people.
func diskName(d fsmpb.DiskState) string {
	names := [...]string{"unknown", "diskless", "attaching", "failed", "negotiating", "inconsistent", "outdated", "consistent", "up to date"}
	if d < 0 || int(d) >= len(names) {
		return "unknown"
	}
	return names[d]
}
