package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// replicaSeen takes in what a host observed of its replica.
func (x reportContext) replicaObserved(v *Volume, f *fsmpb.ReplicaSeen) (Volume, bool) {
	if v.Replication == nil {
		return *v, false
	}
	updated, counts := x.state.withObservation(v, x.host, ReplicaObservationFrom(f))
	if !counts {
		return *v, false
	}
	x.state.completeInitialSync(&updated)
	x.state.finishOperations(&updated)
	_, wasCreating := v.Phase.(Creating)
	return updated, wasCreating != updated.isCreating() || updated.Operation != v.Operation || !updated.Replication.equal(v.Replication)
}

func (v *Volume) isCreating() bool {
	_, creating := v.Phase.(Creating)
	return creating
}

// withObservation is the volume after the observation, and whether it counts: it must be of
// the host's current boot and of the attachment that the log knows, and not of an
// earlier generation than the last one recorded (S5, S7). That nothing is attached
// counts for any attachment of this boot.
func (s *State) withObservation(v *Volume, n *Node, observed ReplicaObservation) (Volume, bool) {
	l := v.ReplicaSync(n.Host)
	switch {
	case l == nil || observed.Boot != n.Boot || !observed.Unconfigured && !l.isOfAttachment(n, observed):
		return *v, false
	case l.Observed.Boot == n.Boot && observed.Generation < l.Observed.Generation || observed.Generation > s.cluster.Index:
		return *v, false
	}
	updated := v.withReplication()
	l = updated.Replication.sync(n.Host)
	if s.level2() {
		updated.Replication.noteOwnDiskFailure(l, &observed)
	}
	l.Observed = observed
	if observed.Unconfigured || observed.Disk < fsmpb.DiskState_DISK_STATE_OUTDATED {
		l.UpToDate = false
	}
	if s.level2() {
		updated.Replication.notePeerDiskFailure(l)
	}
	s.updateReplicaStates(&updated)
	return updated, true
}

// notePeerDiskFailure: a host that is connected to its peer sees that the peer's kernel gave its
// disk up. That is on record before the peer's own host may have said it, or forgotten it
// with its power (S67). One that its host never had attached did not fail.
func (r *Replication) notePeerDiskFailure(l *ReplicaSync) {
	x, o := &l.Observed, r.peerSync(l.Host)
	gone := x.PeerDisk == fsmpb.DiskState_DISK_STATE_DISKLESS || x.PeerDisk == fsmpb.DiskState_DISK_STATE_FAILED
	if o == nil || !gone || !x.Connected() || x.Generation != r.Generation || r.InitialSyncIndex == 0 {
		return
	}
	if p := &o.Observed; p.Boot == o.Boot && p.Attachment == o.Attachment && p.Disk > fsmpb.DiskState_DISK_STATE_FAILED {
		o.DiskFailed = o.Attachment
	}
}

// noteOwnDiskFailure: the host itself says first, still connected, that its kernel gave up the
// disk that it had attached (S67).
func (r *Replication) noteOwnDiskFailure(l *ReplicaSync, observed *ReplicaObservation) {
	before := &l.Observed
	had := before.Boot == observed.Boot && before.Attachment == observed.Attachment && before.Disk > fsmpb.DiskState_DISK_STATE_FAILED
	gone := observed.Disk == fsmpb.DiskState_DISK_STATE_DISKLESS || observed.Disk == fsmpb.DiskState_DISK_STATE_FAILED
	if had && gone && observed.Connected() && observed.Generation == r.Generation && r.InitialSyncIndex != 0 {
		l.DiskFailed = l.Attachment
	}
}

// clearDiskFailures: what the kernel gave up was copied wholly since: both hosts see both disks whole.
func (r *Replication) clearDiskFailures() {
	if len(r.Syncs) != 2 || !r.seesBothUpToDate(&r.Syncs[0]) || !r.seesBothUpToDate(&r.Syncs[1]) || r.Syncs[0].Observed.UUID != r.Syncs[1].Observed.UUID {
		return
	}
	for i := range r.Syncs {
		r.Syncs[i].DiskFailed = 0
	}
}

// updateReplicaStates draws from what the hosts saw all that follows: who is up to date (S10),
// which contents are known (S5), whether the grant was used.
func (s *State) updateReplicaStates(v *Volume) {
	r, index := v.Replication, s.cluster.Index
	primary := s.PrimaryHost(v)
	r.clearDiskFailures() // before a new generation begins
	r.markUpToDate(primary, index)
	if l := r.sync(primary); l != nil && l.Observed.Primary {
		r.recordPromotion(l, index)
	}
	if primary == "" && len(v.Teardowns) == 0 && r.InitialSyncIndex != 0 {
		r.recordCleanDemotion(index)
	}
	if v.isCreating() && !v.Source.IsZero() && r.Generation == v.Created.Index {
		r.noteSyncFromSeed(index)
	}
}

// markUpToDate makes replicas up to date that were seen so. When the primary's peer came
// back by it, a new generation begins: a question from before that is answered STALE,
// and a verdict of before that is of no use (S7).
func (r *Replication) markUpToDate(primary HostID, index uint64) {
	var caughtUp [maxReplicas]bool
	for i := range r.Syncs {
		caughtUp[i] = r.InitialSyncIndex != 0 && r.isCaughtUp(&r.Syncs[i], primary)
	}
	for i := range r.Syncs {
		l := &r.Syncs[i]
		if !caughtUp[i] || l.UpToDate {
			continue
		}
		l.UpToDate, l.Outdated, l.NotKeptReason = true, false, ""
		if l.Host == primary {
			continue
		}
		r.Generation = index
		for j := range r.Syncs {
			r.Syncs[j].SoloPrimaryUUID = RecordedUUID{} // it is not alone any more
		}
	}
}

// isCaughtUp: a replica is up to date when its own host and the primary's both saw them
// together, with one content; without a primary, when both hosts did. The primary's
// own host knows for itself.
func (r *Replication) isCaughtUp(l *ReplicaSync, primary HostID) bool {
	if !r.seesBothUpToDate(l) || l.Host == primary {
		return r.seesBothUpToDate(l)
	}
	o := r.peerSync(l.Host)
	return o != nil && r.seesBothUpToDate(o) && o.Observed.UUID == l.Observed.UUID
}

// recordPromotion: the holder's host says that it is primary. Alone and whole it is the one
// that has everything, as long as nobody else is granted (S5).
func (r *Replication) recordPromotion(l *ReplicaSync, index uint64) {
	r.Primary = &PrimaryGrant{Node: r.Primary.Node, Host: r.Primary.Host, Boot: r.Primary.Boot, Epoch: r.Primary.Epoch, Index: r.Primary.Index, Done: true}
	if r.Forced != nil && r.Forced.Host == l.Host {
		r.Forced = nil // it was carried out
	}
	solo := !l.Observed.Connected() && l.Observed.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE && l.Observed.Generation == r.Generation
	if o := r.peerSync(l.Host); solo && l.Observed.UUID != 0 && l.Observed.UUID != l.SoloPrimaryUUID.Value && (o == nil || o.Outdated) {
		l.SoloPrimaryUUID = RecordedUUID{Value: l.Observed.UUID, Index: index}
	}
}

// settled: both hosts saw the same content while nobody may be primary: a clean
// demotion. It is known until the next grant (S5).
func (r *Replication) recordCleanDemotion(index uint64) {
	if len(r.Syncs) != 2 || !r.seesBothUpToDate(&r.Syncs[0]) || !r.seesBothUpToDate(&r.Syncs[1]) || r.Syncs[0].Observed.UUID != r.Syncs[1].Observed.UUID {
		return
	}
	if r.Syncs[0].Observed.Primary || r.Syncs[1].Observed.Primary {
		return
	}
	for i := range r.Syncs {
		if l := &r.Syncs[i]; l.InSyncUUID.Value != l.Observed.UUID {
			l.InSyncUUID = RecordedUUID{Value: l.Observed.UUID, Index: index}
		}
	}
}

// noteSyncFromSeed: the seed's content is being copied to the other replica. What is seen of a
// volume with a source counts for its birth only after that began, so that the two
// are not taken for equal before.
func (r *Replication) noteSyncFromSeed(index uint64) {
	for i := range r.Syncs {
		l := &r.Syncs[i]
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

// completeInitialSync makes a volume ready whose devices were all made and whose replicas were seen
// together by both hosts, with one content: its birth.
func (s *State) completeInitialSync(v *Volume) {
	r := v.Replication
	if !v.isCreating() || !v.allPresent() || len(r.Syncs) < 2 || !v.Source.IsZero() && r.Generation == v.Created.Index {
		return
	}
	for i := range r.Syncs {
		if !r.seesBothUpToDate(&r.Syncs[i]) || r.Syncs[i].Observed.UUID != r.Syncs[0].Observed.UUID {
			return
		}
	}
	updated, index := v.withReplication(), s.cluster.Index
	r = updated.Replication
	r.InitialSyncIndex, r.Generation = index, index
	for i := range r.Syncs {
		l := &r.Syncs[i]
		l.UpToDate, l.InSyncUUID = true, RecordedUUID{Value: l.Observed.UUID, Index: index}
	}
	updated.Phase, updated.Operation = unpublished, nil
	*v = updated
}
