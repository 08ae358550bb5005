package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Replication is what is recorded of a replicated volume beside its replicas. A
// *Replication that came out of a State is immutable.
type Replication struct {
	Protocol fsmpb.Protocol
	// ReplicaCount is how many replicas it was created with.
	ReplicaCount uint32
	// Minor is DRBD's device number, unique in the cluster until all hosts of the volume
	// reported it removed. Port is unique on each of its hosts; volumes on other hosts can
	// have the same.
	Minor, Port uint32
	// Seed is the host whose replica gives the first content. It is chosen before any
	// metadata is created, so that a new volume has no split brain.
	Seed HostID
	// InitialSyncIndex is the index at which both hosts had reported the same first content;
	// 0: not yet.
	InitialSyncIndex uint64
	// Generation is the index of the last entry after which earlier observations prove nothing,
	// as a grant or a request to outdate the peer that was granted (S7).
	Generation uint64
	// LastGrantIndex is the index of the last grant to be primary, to whichever host; from feature level 2 on a
	// restore forgets it.
	LastGrantIndex uint64
	// Primary is who may be primary now, nil when nobody may.
	Primary *PrimaryGrant
	Forced  *ForcedPrimary // the decision that the next promotion may rest on; nil once the host is primary, or its peer goes on instead
	// Leaving are the hosts of replicas that are being removed and whose ReplicaSync is kept, in
	// the order in which their removal began: the last good copy of a volume is never removed,
	// and takes part again as what it was (S71).
	Leaving []HostID
	// Conversion is set while a volume that was not replicated is given DRBD's metadata (S55).
	Conversion *Conversion
	// Revert is set while a replica goes back to a kept copy (S43).
	Revert *Revert
}

// PrimaryGrant is the right of one host, in one boot, to be primary.
type PrimaryGrant struct {
	Node  NodeID
	Host  HostID
	Boot  string // empty: the host relinquished the grant, and requests another when it stages
	Epoch Epoch  // of the publication
	Index uint64 // when it was granted
	Done  bool   // the host reported, under this publication, that it is primary
}

// ForcedPrimary is an operator's, or a CSI-Addons caller's, decision to promote a replica
// that may miss acknowledged writes (S8).
type ForcedPrimary struct {
	Host              HostID // whose replica is promoted
	Index             uint64
	GivenUpGeneration uint64 // the generation whose acknowledged writes may be lost
	Reason            string
	PeerDead          bool // somebody attested that the other host does not run any more
}

// Each field that came after feature level 1 is hashed behind a number of its own, so that
// no two of them have the same bytes.
const (
	fieldLeaving          = 1
	fieldDiskFailed       = 2
	fieldNotKept          = 3
	fieldPeerBehind       = 4
	fieldFailedAttachment = 5
	fieldKeyGeneration    = 92
)

// hashReplication writes near the end of the volume's record, and only for replicated volumes, so
// that others hash as they did before there were any.
func hashReplication(e *encoder, v *Volume) {
	r := v.Replication
	if r == nil {
		return
	}
	e.u64(uint64(r.Protocol))
	e.u64(uint64(r.ReplicaCount))
	e.u64(uint64(r.Minor))
	e.u64(uint64(r.Port))
	e.str(string(r.Seed))
	e.u64(r.InitialSyncIndex)
	e.u64(r.Generation)
	e.u64(r.LastGrantIndex)
	hashPrimary(e, r.Primary)
	hashForced(e, r.Forced)
	active, leaving := v.ActiveReplicas(), v.recordedLeaving()
	hashReplicaSyncs(e, active)
	if len(leaving) > 0 {
		e.u64(fieldLeaving)
		hashReplicaSyncs(e, leaving)
	}
	hashDiskFailures(e, active)
	hashDiskFailures(e, leaving)
	hashNotKept(e, active)
	hashPeersBehind(e, active)
	hashPeersBehind(e, leaving)
	hashFailedAttachments(e, active)
	hashFailedAttachments(e, leaving)
	hashKeyGenerations(e, active)
	hashKeyGenerations(e, leaving)
	hashSynced(e, active)
	hashSynced(e, leaving)
	r.hashConversion(e)
}

func (r *Replication) hashConversion(e *encoder) {
	if c := r.Conversion; c != nil {
		e.u64(fieldConversion)
		e.u64(c.Began)
		e.bool(c.OnSeed)
		e.bool(c.Undoing)
		e.str(c.Reason)
		if c.Restored {
			e.u64(fieldRestored)
		}
	}
	if v := r.Revert; v != nil {
		e.u64(fieldRevert)
		e.str(string(v.Host))
		e.str(string(v.Snapshot))
		e.u64(v.Index)
		e.bool(v.Done)
	}
}

// hashSynced writes what was up to date once, and what is to be kept, only where it is so.
func hashSynced(e *encoder, replicas []*Replica) {
	for _, l := range replicas {
		if l.Synced {
			e.u64(fieldSynced)
			e.str(string(l.Host))
		}
		if l.Partial {
			e.u64(fieldPartial)
			e.str(string(l.Host))
		}
		if l.CutIndex != 0 || l.Copied {
			e.u64(fieldCutIndex)
			e.str(string(l.Host))
			e.u64(l.CutIndex)
			e.bool(l.Copied)
		}
		if l.KeepDue {
			e.u64(fieldKeepDue)
			e.str(string(l.Host))
		}
	}
}

func hashPrimary(e *encoder, p *PrimaryGrant) {
	e.bool(p != nil)
	if p == nil {
		return
	}
	e.str(string(p.Node))
	e.str(string(p.Host))
	e.str(p.Boot)
	e.epoch(p.Epoch)
	e.u64(p.Index)
	e.bool(p.Done)
}

func hashForced(e *encoder, f *ForcedPrimary) {
	e.bool(f != nil)
	if f == nil {
		return
	}
	e.str(string(f.Host))
	e.u64(f.Index)
	e.u64(f.GivenUpGeneration)
	e.str(f.Reason)
	e.bool(f.PeerDead)
}

func (v *Volume) replicationRecord() *fsmpb.ReplicationRecord {
	r := v.Replication
	if r == nil {
		return nil
	}
	out := &fsmpb.ReplicationRecord{
		Protocol: r.Protocol, Replicas: r.ReplicaCount, Minor: r.Minor, Port: r.Port, SeedHostId: string(r.Seed),
		Born: r.InitialSyncIndex, Generation: r.Generation, Granted: r.LastGrantIndex,
	}
	if p := r.Primary; p != nil {
		out.Primary = &fsmpb.PrimaryRecord{NodeId: string(p.Node), HostId: string(p.Host), BootId: p.Boot, Epoch: p.Epoch.Proto(), Index: p.Index, Done: p.Done}
	}
	if f := r.Forced; f != nil {
		out.Forced = &fsmpb.ForcedRecord{HostId: string(f.Host), Index: f.Index, GivenUpGeneration: f.GivenUpGeneration, Reason: f.Reason, PeerDead: f.PeerDead}
	}
	if c := r.Conversion; c != nil {
		out.Conversion = &fsmpb.ConversionRecord{Began: c.Began, BegunOnSeed: c.OnSeed, Undoing: c.Undoing, Reason: c.Reason, Restored: c.Restored}
	}
	if b := r.Revert; b != nil {
		out.Revert = &fsmpb.RevertRecord{HostId: string(b.Host), SnapshotId: string(b.Snapshot), Index: b.Index, Done: b.Done}
	}
	for _, l := range v.ActiveReplicas() {
		out.Legs = append(out.Legs, l.syncRecord())
	}
	for _, l := range v.recordedLeaving() {
		out.Left = append(out.Left, l.syncRecord())
	}
	return out
}

// replicationFromRecord refuses a minor that DRBD does not have: the index keeps every free minor
// below those in use, and would fill the memory.
func replicationFromRecord(r *fsmpb.ReplicationRecord, err *error) *Replication {
	if r == nil {
		return nil
	}
	if m := r.GetMinor(); m < firstMinor || m > lastMinor {
		*err = errForm
	}
	replication := &Replication{
		Protocol: r.GetProtocol(), ReplicaCount: r.GetReplicas(), Minor: r.GetMinor(), Port: r.GetPort(), Seed: HostID(r.GetSeedHostId()),
		InitialSyncIndex: r.GetBorn(), Generation: r.GetGeneration(), LastGrantIndex: r.GetGranted(),
	}
	if p := r.GetPrimary(); p != nil {
		replication.Primary = &PrimaryGrant{
			Node: NodeID(p.GetNodeId()), Host: HostID(p.GetHostId()), Boot: p.GetBootId(), Epoch: EpochFrom(p.GetEpoch()), Index: p.GetIndex(), Done: p.GetDone(),
		}
	}
	if f := r.GetForced(); f != nil {
		replication.Forced = &ForcedPrimary{Host: HostID(f.GetHostId()), Index: f.GetIndex(), GivenUpGeneration: f.GetGivenUpGeneration(), Reason: f.GetReason(), PeerDead: f.GetPeerDead()}
	}
	if c := r.GetConversion(); c != nil {
		replication.Conversion = &Conversion{Began: c.GetBegan(), OnSeed: c.GetBegunOnSeed(), Undoing: c.GetUndoing(), Reason: c.GetReason(), Restored: c.GetRestored()}
	}
	if b := r.GetRevert(); b != nil {
		replication.Revert = &Revert{Host: HostID(b.GetHostId()), Snapshot: SnapshotID(b.GetSnapshotId()), Index: b.GetIndex(), Done: b.GetDone()}
	}
	return replication
}

// readSyncs gives each of the replicas, which were read before, what the record has of it.
func (v *Volume) readSyncs(r *fsmpb.ReplicationRecord, err *error) {
	for _, l := range r.GetLegs() {
		v.readSync(l, err)
	}
	for _, l := range r.GetLeft() {
		v.readSync(l, err)
		v.Replication.Leaving = append(v.Replication.Leaving, HostID(l.GetHostId()))
	}
}

func (v *Volume) readSync(l *fsmpb.LegRecord, err *error) {
	r := v.replicaOn(HostID(l.GetHostId()))
	if r == nil || r.ReplicaSync != nil {
		*err = errForm
		return
	}
	r.ReplicaSync = replicaSyncFromRecord(l)
}
