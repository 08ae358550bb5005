package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// replicaObserved records what a host observed of its replica.
func (x reportContext) replicaObserved(v *Volume, f *fsmpb.ReplicaSeen) (Volume, bool) {
	if v.Replication == nil {
		return *v, false
	}
	updated, counts := x.state.withObservation(v, x.host, ReplicaObservationFrom(f))
	if !counts {
		return *v, false
	}
	x.state.completeInitialSync(&updated)
	x.state.advanceConversion(&updated)
	x.state.finishOperations(&updated)
	_, wasCreating := v.Phase.(Creating)
	return updated, wasCreating != updated.isCreating() || updated.Operation != v.Operation || !updated.sameReplication(v)
}

func (v *Volume) isCreating() bool {
	_, creating := v.Phase.(Creating)
	return creating
}

// withObservation is the volume after the observation, and whether it counts: it must be of
// the host's current boot and of the recorded attachment, and not of an earlier generation
// than the last one recorded or of one that the log did not issue, nor of before the host's grant (S1, S5, S7). An observation that nothing is attached counts for
// any attachment of this boot.
func (s *State) withObservation(v *Volume, n *Node, observed ReplicaObservation) (Volume, bool) {
	l := v.ActiveReplica(n.Host)
	switch {
	case l == nil || observed.Boot != n.Boot || !observed.Unconfigured && !l.isOfAttachment(n, observed):
		return *v, false
	case l.Observed.Boot == n.Boot && observed.Generation < l.Observed.Generation || observed.Generation > s.cluster.Index:
		return *v, false
	case s.level2() && (v.Replication.grantedSince(n, &observed) || observed.Generation > v.Replication.Generation):
		return *v, false // a generation that this log did not issue is of a log that was lost (S1)
	}
	updated := v.withReplication()
	l = updated.ActiveReplica(n.Host)
	if s.level2() {
		updated.Replication.noteOwnDiskFailure(l, &observed)
		updated.Replication.noteRecordedDiskFailure(l, &observed)
	}
	l.Observed = observed
	if v.RelationMember != nil {
		l.noteWhole(&observed, updated.Replication.isReverted(n.Host))
		updated.Replication.noteCopied(l)
	}
	granted := updated.Replication.isReverted(n.Host) && observed.Disk == fsmpb.DiskState_DISK_STATE_INCONSISTENT && !observed.Unconfigured
	if !granted && (observed.Unconfigured || observed.Disk < fsmpb.DiskState_DISK_STATE_OUTDATED) {
		l.UpToDate = false
	}
	if s.level2() {
		updated.notePeerDiskFailure(l)
		updated.notePeerBehind(l)
	}
	if observed.Primary && !observed.Suspended && s.PrimaryHost(v) == n.Host && n.canBeAsked() {
		s.endForcedElsewhere(updated.Replication, n.Host) // it goes on, whatever somebody attested of it
	}
	s.updateReplicaStates(&updated)
	return updated, true
}

// grantedSince: the observation is of before the grant that the host has in this boot, which says what its replica is.
func (r *Replication) grantedSince(n *Node, observed *ReplicaObservation) bool {
	g := r.Primary
	return g != nil && g.Host == n.Host && g.Boot == n.Boot && observed.Generation < g.Index
}

// notePeerDiskFailure: a host that is connected to its peer observes that the peer's kernel
// detached a failed disk. This is recorded without waiting for the peer's own report, which
// may never come when its host loses power (S67). A disk that was never attached did not fail, and of
// one that failed before and is being copied again this may be an old observation.
func (v *Volume) notePeerDiskFailure(l *Replica) {
	r, x, o := v.Replication, &l.Observed, v.PeerReplica(l.Host)
	if o == nil || o.DiskFailed != 0 || !x.seesPeersDiskGone() || !x.Connected() || x.Generation != r.Generation || r.InitialSyncIndex == 0 {
		return
	}
	if p := &o.Observed; p.Boot == o.Boot && p.Attachment == o.Attachment && p.Disk > fsmpb.DiskState_DISK_STATE_FAILED {
		o.DiskFailed = o.Attachment
	}
}

// seesPeersDiskGone: the peer's kernel detached its disk.
func (r ReplicaObservation) seesPeersDiskGone() bool {
	return r.PeerDisk == fsmpb.DiskState_DISK_STATE_DISKLESS || r.PeerDisk == fsmpb.DiskState_DISK_STATE_FAILED
}

// notePeerBehind: the replica's disk went on in a generation of its own, which the log permits only by
// outdating its peer. Without that it did so because the peer's kernel detached its disk while they
// were connected, and nobody reported that in time (S67). Where a host may write without asking, as
// with protocol A, it proves nothing; nor after a restore, until somebody is granted, to which both
// were seen together or one is outdated: the log that was lost may have outdated either of them, and the stale
// one may be the first that is heard of (S1). Nor while they are connected and both have a disk, if the
// peer's own host said that its disk was copied: then this kernel is about to learn of the copy's end.
func (v *Volume) notePeerBehind(l *Replica) {
	r, x, o := v.Replication, &l.Observed, v.PeerReplica(l.Host)
	proves := x.PeerBehind && !x.Unconfigured && x.Disk >= fsmpb.DiskState_DISK_STATE_CONSISTENT && x.Generation == r.Generation
	if !proves || o == nil || o.Attachment == 0 || r.Protocol == fsmpb.Protocol_PROTOCOL_A || r.InitialSyncIndex == 0 || r.LastGrantIndex == 0 {
		return
	}
	copied := o.UpToDate && x.Connected() && !x.seesPeersDiskGone()
	if l.Outdated || l.DiskFailed != 0 || o.Outdated || copied {
		return
	}
	if o.DiskFailed == 0 {
		o.DiskFailed, o.UpToDate = o.Attachment, false
	}
	l.UpToDate = true // all that was written since is on it alone
}

// noteOwnDiskFailure: the host itself reports first, still connected, that its kernel detached
// the disk (S67).
func (r *Replication) noteOwnDiskFailure(l *Replica, observed *ReplicaObservation) {
	before := &l.Observed
	had := before.Boot == observed.Boot && before.Attachment == observed.Attachment && before.Disk > fsmpb.DiskState_DISK_STATE_FAILED
	gone := observed.Disk == fsmpb.DiskState_DISK_STATE_DISKLESS || observed.Disk == fsmpb.DiskState_DISK_STATE_FAILED
	if had && gone && observed.Connected() && observed.Generation == r.Generation && r.InitialSyncIndex != 0 {
		l.DiskFailed = l.Attachment
	}
}

// noteRecordedDiskFailure: the host recorded that the disk failed in its last attachment, and could not report it
// before its process ended, or its host lost its power. Of what was attached since it says nothing.
func (r *Replication) noteRecordedDiskFailure(l *Replica, observed *ReplicaObservation) {
	if f := observed.FailedAttachment; f != 0 && f >= l.Attachment && l.DiskFailed == 0 && r.InitialSyncIndex != 0 {
		l.DiskFailed, l.UpToDate = f, false
	}
}

// clearDiskFailures forgets a failed disk once all its content was copied again, in a later attachment than the one
// that failed: only what is not attached is prepared for that. From feature level 2 on the same observations show it
// by which a replica counts as up to date. If it took both hosts' for a primary too, the disk of its peer, when
// it fails before that host's next observation, would wait for ever for this one to be whole.
func (s *State) clearDiskFailures(v *Volume, primary HostID) {
	inSync := v.Replication.inSync(v.ActiveReplicas())
	for _, l := range v.ActiveReplicas() {
		if inSync && !l.failedNow() || s.level2() && v.isCaughtUp(l, primary) {
			l.DiskFailed = 0
		}
	}
}

// failedNow: the disk failed in its present attachment, or in one whose number is not known.
func (l *ReplicaSync) failedNow() bool { return l.DiskFailed != 0 && l.DiskFailed >= l.Attachment }

// inSync tells whether both hosts last observed two UpToDate replicas with the same content.
func (r *Replication) inSync(active []*Replica) bool {
	return len(active) == 2 && r.seesBothUpToDate(active[0]) && r.seesBothUpToDate(active[1]) && active[0].Observed.UUID == active[1].Observed.UUID
}

// updateReplicaStates derives from the hosts' observations which replicas are up to date
// (S10), which UUIDs are recorded (S5), and whether the host that has the grant is primary.
func (s *State) updateReplicaStates(v *Volume) {
	r, index := v.Replication, s.cluster.Index
	primary := s.PrimaryHost(v)
	s.clearDiskFailures(v, primary) // before a new generation begins
	s.markUpToDate(v, primary, index)
	s.grantAsSeen(v)
	if l := v.ActiveReplica(primary); l != nil && l.Observed.Primary {
		v.recordPromotion(l, index)
	}
	if primary == "" && len(v.Teardowns) == 0 && r.InitialSyncIndex != 0 {
		v.recordCleanDemotion(index)
	}
	if v.isCreating() && !v.Source.IsZero() && r.Generation == v.Created.Index {
		v.noteSyncFromSeed(index)
	}
	v.noteSynced(s.cluster.Time)
	v.noteSync(s.cluster.Time)
	v.noteEqual()
	s.noteAhead(v)
}

// markUpToDate marks replicas that were observed up to date. When that is the primary's peer
// a new generation begins: an earlier request to outdate the peer is answered STALE, and an
// earlier verdict has no effect (S7).
func (s *State) markUpToDate(v *Volume, primary HostID, index uint64) {
	r, active := v.Replication, v.ActiveReplicas()
	var caughtUp [MaxReplicas]bool
	for i, l := range active {
		caughtUp[i] = r.InitialSyncIndex != 0 && v.isCaughtUp(l, primary)
	}
	for i, l := range active {
		if !caughtUp[i] || l.UpToDate {
			continue
		}
		l.clearOutdated()
		if l.Host == primary {
			s.askPeerAgain(v, l)
			continue
		}
		r.Generation = index
		for _, o := range active {
			o.SoloPrimaryUUID = RecordedUUID{} // its peer is up to date again
		}
	}
}

// askPeerAgain: the primary reports that its disk was copied again, while its peer last observed that the primary has no disk. Either the
// peer's observation is older, or the disk failed once more and the primary's report is late. A new generation makes the peer
// report which, and until it did it does not connect (S67).
func (s *State) askPeerAgain(v *Volume, primary *Replica) {
	o := v.PeerReplica(primary.Host)
	if s.level2() && o != nil && (o.Observed.PeerBehind || o.Observed.seesPeersDiskGone()) {
		v.Replication.Generation = s.cluster.Index
	}
}

// isCaughtUp: a replica is up to date when its own host and its peer's both observed the two
// connected and UpToDate, with the same content. For the primary its own host's observation
// is enough.
func (v *Volume) isCaughtUp(l *Replica, primary HostID) bool {
	r := v.Replication
	if l.failedNow() {
		return false
	}
	if !r.seesBothUpToDate(l) || l.Host == primary {
		return r.seesBothUpToDate(l)
	}
	o := v.PeerReplica(l.Host)
	return o != nil && r.seesBothUpToDate(o) && o.Observed.UUID == l.Observed.UUID
}

// recordPromotion: the host that has the grant reports that it is primary. With an UpToDate
// disk and without its peer it is the one that has every write, until another host gets a
// grant (S5).
func (v *Volume) recordPromotion(l *Replica, index uint64) {
	r := v.Replication
	r.Primary = &PrimaryGrant{Node: r.Primary.Node, Host: r.Primary.Host, Boot: r.Primary.Boot, Epoch: r.Primary.Epoch, Index: r.Primary.Index, Done: true}
	if r.Forced != nil && r.Forced.Host == l.Host {
		r.Forced = nil // it was carried out
	}
	if r.isReverted(l.Host) {
		r.Revert = nil
	}
	solo := !l.Observed.Connected() && l.Observed.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE && l.Observed.Generation == r.Generation
	if o := v.PeerReplica(l.Host); solo && l.Observed.UUID != 0 && l.Observed.UUID != l.SoloPrimaryUUID.Value && (o == nil || o.Outdated) {
		l.SoloPrimaryUUID = RecordedUUID{Value: l.Observed.UUID, Index: index}
	}
}

// recordCleanDemotion: both hosts observed the same content while no host may be primary.
// That content counts until the next grant (S5).
func (v *Volume) recordCleanDemotion(index uint64) {
	active := v.ActiveReplicas()
	if !v.Replication.inSync(active) || active[0].Observed.Primary || active[1].Observed.Primary {
		return
	}
	for _, l := range active {
		if l.InSyncUUID.Value != l.Observed.UUID {
			l.InSyncUUID = RecordedUUID{Value: l.Observed.UUID, Index: index}
		}
	}
}

// noteSyncFromSeed: the seed's content is being copied to the other replica. Observations of a
// volume with a source count for its initial sync only after that began, so that the two
// replicas are not taken for equal before.
func (v *Volume) noteSyncFromSeed(index uint64) {
	r := v.Replication
	for _, l := range v.ActiveReplicas() {
		expected := fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
		if l.Host == r.Seed {
			expected = fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE
		}
		if l.Observed.Connection == expected && l.Observed.Generation == r.Generation {
			r.Generation = index
			return
		}
	}
}

// completeInitialSync makes a volume Ready whose devices were all created and whose replicas
// both hosts observed connected and UpToDate, with the same content.
func (s *State) completeInitialSync(v *Volume) {
	r, active := v.Replication, v.ActiveReplicas()
	if !v.isCreating() || !v.allPresent() || len(active) < 2 || !v.Source.IsZero() && r.Generation == v.Created.Index {
		return
	}
	for _, l := range active {
		if !r.seesBothUpToDate(l) || l.Observed.UUID != active[0].Observed.UUID {
			return
		}
	}
	updated, index := v.withReplication(), s.cluster.Index
	r = updated.Replication
	r.InitialSyncIndex, r.Generation = index, index
	for _, l := range updated.ActiveReplicas() {
		l.UpToDate, l.InSyncUUID = true, RecordedUUID{Value: l.Observed.UUID, Index: index}
	}
	updated.Phase, updated.Operation = unpublished, nil
	*v = updated
}
