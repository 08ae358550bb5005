package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// replicaSeen takes in what a host observed of its replica.
func (x observation) replicaSeen(v *Volume, f *fsmpb.ReplicaSeen) (Volume, bool) {
	if v.Replication == nil {
		return *v, false
	}
	now, counts := x.state.withSeen(v, x.host, ReplicaSeenFrom(f))
	if !counts {
		return *v, false
	}
	x.state.bear(&now)
	x.state.settle(&now)
	_, born := v.Phase.(Creating)
	return now, born != now.creating() || now.Operation != v.Operation || !now.Replication.equal(v.Replication)
}

func (v *Volume) creating() bool {
	_, creating := v.Phase.(Creating)
	return creating
}

// withSeen is the volume after the observation, and whether it counts: it must be of
// the host's current boot and of the attachment that the log knows, and not of an
// earlier generation than the last one recorded (S5, S7). That nothing is attached
// counts for any attachment of this boot.
func (s *State) withSeen(v *Volume, n *Node, seen ReplicaSeen) (Volume, bool) {
	l := v.Leg(n.Host)
	switch {
	case l == nil || seen.Boot != n.Boot || !seen.Down && !l.matches(n, seen):
		return *v, false
	case l.Seen.Boot == n.Boot && seen.Generation < l.Seen.Generation || seen.Generation > s.cluster.Index:
		return *v, false
	}
	now := v.withReplication()
	l = now.Replication.leg(n.Host)
	if s.level2() {
		now.Replication.ownFailed(l, &seen)
	}
	l.Seen = seen
	if seen.Down || seen.Disk < fsmpb.DiskState_DISK_STATE_OUTDATED {
		l.UpToDate = false
	}
	if s.level2() {
		now.Replication.peerFailed(l)
	}
	s.conclude(&now)
	return now, true
}

// peerFailed: a host that is connected to its peer sees that the peer's kernel gave its
// disk up. That is on record before the peer's own host may have said it, or forgotten it
// with its power (S67). One that its host never had attached did not fail.
func (r *Replication) peerFailed(l *Leg) {
	x, o := &l.Seen, r.other(l.Host)
	gone := x.PeerDisk == fsmpb.DiskState_DISK_STATE_DISKLESS || x.PeerDisk == fsmpb.DiskState_DISK_STATE_FAILED
	if o == nil || !gone || !x.Connected() || x.Generation != r.Generation || r.Born == 0 {
		return
	}
	if p := &o.Seen; p.Boot == o.Boot && p.Attach == o.Attach && p.Disk > fsmpb.DiskState_DISK_STATE_FAILED {
		o.DiskFailed = o.Attach
	}
}

// ownFailed: the host itself says first, still connected, that its kernel gave up the
// disk that it had attached (S67).
func (r *Replication) ownFailed(l *Leg, seen *ReplicaSeen) {
	was := &l.Seen
	had := was.Boot == seen.Boot && was.Attach == seen.Attach && was.Disk > fsmpb.DiskState_DISK_STATE_FAILED
	gone := seen.Disk == fsmpb.DiskState_DISK_STATE_DISKLESS || seen.Disk == fsmpb.DiskState_DISK_STATE_FAILED
	if had && gone && seen.Connected() && seen.Generation == r.Generation && r.Born != 0 {
		l.DiskFailed = l.Attach
	}
}

// mended: what the kernel gave up was copied wholly since: both hosts see both disks whole.
func (r *Replication) mended() {
	if len(r.Legs) != 2 || !r.together(&r.Legs[0]) || !r.together(&r.Legs[1]) || r.Legs[0].Seen.UUID != r.Legs[1].Seen.UUID {
		return
	}
	for i := range r.Legs {
		r.Legs[i].DiskFailed = 0
	}
}

// conclude draws from what the hosts saw all that follows: who is up to date (S10),
// which contents are known (S5), whether the grant was used.
func (s *State) conclude(v *Volume) {
	r, index := v.Replication, s.cluster.Index
	holder := s.Holder(v)
	r.mended() // before a new generation begins
	r.catchUp(holder, index)
	if l := r.leg(holder); l != nil && l.Seen.Primary {
		r.promoted(l, index)
	}
	if holder == "" && len(v.Teardowns) == 0 && r.Born != 0 {
		r.settled(index)
	}
	if v.creating() && !v.Source.IsZero() && r.Generation == v.Created.Index {
		r.copying(index)
	}
}

// catchUp makes replicas up to date that were seen so. When the primary's peer came
// back by it, a new generation begins: a question from before that is answered STALE,
// and a verdict of before that is of no use (S7).
func (r *Replication) catchUp(holder HostID, index uint64) {
	var whole [mostReplicas]bool
	for i := range r.Legs {
		whole[i] = r.Born != 0 && r.caughtUp(&r.Legs[i], holder)
	}
	for i := range r.Legs {
		l := &r.Legs[i]
		if !whole[i] || l.UpToDate {
			continue
		}
		l.UpToDate, l.Outdated, l.NotKept = true, false, ""
		if l.Host == holder {
			continue
		}
		r.Generation = index
		for j := range r.Legs {
			r.Legs[j].Alone = KnownUUID{} // it is not alone any more
		}
	}
}

// caughtUp: a replica is up to date when its own host and the primary's both saw them
// together, with one content; without a primary, when both hosts did. The primary's
// own host knows for itself.
func (r *Replication) caughtUp(l *Leg, holder HostID) bool {
	if !r.together(l) || l.Host == holder {
		return r.together(l)
	}
	o := r.other(l.Host)
	return o != nil && r.together(o) && o.Seen.UUID == l.Seen.UUID
}

// promoted: the holder's host says that it is primary. Alone and whole it is the one
// that has everything, as long as nobody else is granted (S5).
func (r *Replication) promoted(l *Leg, index uint64) {
	r.Primary = &Primary{Node: r.Primary.Node, Host: r.Primary.Host, Boot: r.Primary.Boot, Epoch: r.Primary.Epoch, Index: r.Primary.Index, Done: true}
	if r.Forced != nil && r.Forced.Host == l.Host {
		r.Forced = nil // it was carried out
	}
	alone := !l.Seen.Connected() && l.Seen.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE && l.Seen.Generation == r.Generation
	if o := r.other(l.Host); alone && l.Seen.UUID != 0 && l.Seen.UUID != l.Alone.UUID && (o == nil || o.Outdated) {
		l.Alone = KnownUUID{UUID: l.Seen.UUID, Index: index}
	}
}

// settled: both hosts saw the same content while nobody may be primary: a clean
// demotion. It is known until the next grant (S5).
func (r *Replication) settled(index uint64) {
	if len(r.Legs) != 2 || !r.together(&r.Legs[0]) || !r.together(&r.Legs[1]) || r.Legs[0].Seen.UUID != r.Legs[1].Seen.UUID {
		return
	}
	if r.Legs[0].Seen.Primary || r.Legs[1].Seen.Primary {
		return
	}
	for i := range r.Legs {
		if l := &r.Legs[i]; l.Settled.UUID != l.Seen.UUID {
			l.Settled = KnownUUID{UUID: l.Seen.UUID, Index: index}
		}
	}
}

// copying: the seed's content is being copied to the other replica. What is seen of a
// volume with a source counts for its birth only after that began, so that the two
// are not taken for equal before.
func (r *Replication) copying(index uint64) {
	for i := range r.Legs {
		l := &r.Legs[i]
		begun := fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
		if l.Host == r.Seed {
			begun = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
		}
		if l.Seen.Connection == begun && l.Seen.Generation == r.Generation {
			r.Generation = index
			return
		}
	}
}

// bear makes a volume ready whose devices were all made and whose replicas were seen
// together by both hosts, with one content: its birth.
func (s *State) bear(v *Volume) {
	r := v.Replication
	if !v.creating() || !v.allPresent() || len(r.Legs) < 2 || !v.Source.IsZero() && r.Generation == v.Created.Index {
		return
	}
	for i := range r.Legs {
		if !r.together(&r.Legs[i]) || r.Legs[i].Seen.UUID != r.Legs[0].Seen.UUID {
			return
		}
	}
	now, index := v.withReplication(), s.cluster.Index
	r = now.Replication
	r.Born, r.Generation = index, index
	for i := range r.Legs {
		l := &r.Legs[i]
		l.UpToDate, l.Settled = true, KnownUUID{UUID: l.Seen.UUID, Index: index}
	}
	now.Phase, now.Operation = unpublished, nil
	*v = now
}
