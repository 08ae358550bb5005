package fsm

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// RelationMember is what is recorded of one volume of a relation beside its replicas. A *RelationMember that came
// out of a State is immutable.
type RelationMember struct {
	// Added: the replica at AddedAt was made for the relation, and goes with it.
	Added   bool
	AddedAt Site
	// Apart: the replica at ApartAt was given up by force. It stays disconnected and whole until a resynchronisation
	// is forced through its site, or an operator decides (S48).
	Apart   bool
	ApartAt Site
	// ApartHost is the host whose content was given up by force, until both replicas are up to date: what it has is not
	// discarded before it was kept.
	ApartHost HostID
	// OutdatedByForce: that host's replica was outdated by nothing but the decision to promote the other one by force.
	OutdatedByForce bool
	// Ahead: both its replicas were brought up to date since its group was cut, and those of another member were not yet:
	// of the members' contents where they are copied to, its is of a later instant (S44, S52).
	Ahead bool
	// CutWith is the cut of its group in which it was disconnected together with the others (S52). UseEnded is the index up to which a
	// host might write to it last: what both its replicas have is of no earlier instant than that, or than its last grant.
	CutWith, UseEnded uint64
	// DiscardUnkept: that replica's content may be discarded although it cannot be kept.
	DiscardUnkept bool
	// GivenUp is what the last forced promotion gave up; nil: there was none.
	GivenUp *GivenUp
	// InSyncAt is when both replicas were last recorded as having everything: at first, and since then when one of
	// them was outdated. Zero: they never were.
	InSyncAt time.Time
	// Sync is the resynchronisation under way, LastSync the last one that ended; zero: none.
	Sync     SyncProgress
	LastSync SyncResult
}

// GivenUp is what a forced promotion gave up of a volume (S44).
type GivenUp struct {
	Index      uint64
	Generation uint64     // whose last acknowledged writes may be lost
	Since      time.Time  // when the promoted replica was last known to be up to date; zero: not known
	RevertedTo SnapshotID // the kept copy to which it went back; empty: it went on as it was
}

// SyncProgress is a resynchronisation that was observed to begin.
type SyncProgress struct {
	Began time.Time
	Bytes int64 // out of sync then
}

// SyncResult is a resynchronisation that was observed to end.
type SyncResult struct {
	Ended    time.Time
	Bytes    int64
	Duration time.Duration
}

func (m *RelationMember) clone() *RelationMember {
	if m == nil {
		return &RelationMember{}
	}
	c := *m
	return &c
}

// noteSync records the begin and the end of a resynchronisation, as hosts observed them.
func (v *Volume) noteSync(now time.Time) {
	if v.RelationMember == nil {
		return
	}
	m := v.RelationMember.clone()
	active := v.ActiveReplicas()
	switch {
	case m.Sync.Began.IsZero():
		for _, l := range active {
			if l.Observed.isSyncing() {
				m.Sync = SyncProgress{Began: now, Bytes: l.Observed.OutOfSync}
				break
			}
		}
	case len(active) == MaxReplicas && allUpToDate(active):
		m.LastSync = SyncResult{Ended: now, Bytes: m.Sync.Bytes, Duration: max(0, now.Sub(m.Sync.Began))}
		m.Sync = SyncProgress{}
	default: // a host's first look may be too early to say how much there is
		for _, l := range active {
			if l.Observed.isSyncing() {
				m.Sync.Bytes = max(m.Sync.Bytes, l.Observed.OutOfSync)
			}
		}
	}
	if *m != *v.RelationMember {
		v.RelationMember = m
	}
}

// isSyncing tells whether a resynchronisation is under way, in either direction.
func (r ReplicaObservation) isSyncing() bool {
	return r.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE || r.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET
}

// SyncedAt is the newest time at which both replicas are known to have had everything; zero: there is none.
func (m *RelationMember) SyncedAt() time.Time {
	switch {
	case m == nil:
		return time.Time{}
	case m.InSyncAt.After(m.LastSync.Ended):
		return m.InSyncAt
	}
	return m.LastSync.Ended
}

// noteSynced remembers which replicas were up to date since they were made or the relation was: no other is
// promoted by force (S43).
func (v *Volume) noteSynced(now time.Time) {
	if v.RelationMember == nil {
		return
	}
	active := v.ActiveReplicas()
	for _, l := range active {
		l.Synced = l.Synced || l.UpToDate
	}
	if len(active) < MaxReplicas || !allUpToDate(active) {
		return
	}
	if v.RelationMember.SyncedAt().IsZero() {
		m := v.RelationMember.clone()
		m.InSyncAt = now
		v.RelationMember = m
	}
}

// forgetSynced: what was known of the replicas in a former relation says nothing in this one (S43).
func (v *Volume) forgetSynced() {
	for _, l := range v.ActiveReplicas() {
		l.Synced, l.KeepDue = false, false
	}
}

// noteOutdated: the replica that is outdated from here on had everything until now. What it has is kept before it
// becomes the target of a resynchronisation (S50).
func (s *State) noteOutdated(v *Volume, l *Replica, was ReplicaSync) {
	relation := s.RelationOf(v)
	if relation == nil || v.RelationMember == nil {
		return
	}
	if was.UpToDate {
		m := v.RelationMember.clone()
		m.InSyncAt = s.cluster.Time
		v.RelationMember = m
	}
	if was.getsWrites() { // else it was kept when it was outdated first, and may have a part of what it was sent since
		l.CutIndex, l.Copied = s.cluster.Index, false
		if relation.Cut != 0 && v.RelationMember.CutWith == relation.Cut {
			l.CutIndex = relation.Cut
		}
		l.KeepDue = l.Synced && !l.Partial && l.DiskFailed == 0 && !relation.DiscardUnkept && !plantedbug.Is(plantedbug.NotKeptBeforeSync)
	}
}

// getsWrites: what it has is of the instant of the last write that reached it. Before the log knows of the end of a copy the replica
// is outdated still.
func (l *ReplicaSync) getsWrites() bool { return !l.Outdated || l.Copied && !l.Partial }

// noteWhole remembers whether the replica has a whole content, as its host observed last: the kernel calls one
// that has a part of it Inconsistent. One that went back to a kept copy is called so too.
func (l *ReplicaSync) noteWhole(observed *ReplicaObservation, reverted bool) {
	switch {
	case reverted || observed.Unconfigured:
	case observed.Disk == fsmpb.DiskState_DISK_STATE_INCONSISTENT || observed.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET:
		l.Partial, l.KeepDue, l.Copied = true, false, l.Outdated // it is overwritten already
	case observed.Disk >= fsmpb.DiskState_DISK_STATE_OUTDATED:
		l.Partial = false
	}
}

// noteCopied: the outdated replica is up to date by its kernel, and connected in this generation, so it was copied.
func (r *Replication) noteCopied(l *Replica) {
	x := &l.Observed
	copied := x.Connected() && x.Disk == fsmpb.DiskState_DISK_STATE_UP_TO_DATE && x.Generation == r.Generation
	l.Copied = l.Copied || l.Outdated && copied
}

// noteEqual: both replicas are up to date, so that nothing is left of what was given up by force.
func (v *Volume) noteEqual() {
	m := v.RelationMember
	if m == nil || m.Apart || m.ApartHost == "" && !m.DiscardUnkept || !v.allInSync() {
		return
	}
	updated := *m
	updated.ApartHost, updated.OutdatedByForce, updated.DiscardUnkept = "", false, false
	v.RelationMember = &updated
}

// noteUseEnded: until this index a host might write to the volume.
func (v *Volume) noteUseEnded(index uint64) {
	if v.RelationMember == nil {
		return
	}
	m := v.RelationMember.clone()
	m.UseEnded = index
	v.RelationMember = m
}

// withoutDecisions ends what was decided of a host's replica that is no more.
func (v *Volume) withoutDecisions(host HostID) {
	if r := v.Replication; r.Revert != nil && r.Revert.Host == host {
		r.Revert = nil
	}
	if m := v.RelationMember; m != nil && m.ApartHost == host {
		updated := *m
		updated.Apart, updated.ApartAt, updated.ApartHost, updated.OutdatedByForce, updated.DiscardUnkept = false, "", "", false, false
		v.RelationMember = &updated
	}
}
