package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Replica is one copy of a volume on one host.
type Replica struct {
	Node NodeID
	Host HostID
	Pool PoolID
	// State is what its host last reported.
	State ReplicaState
	// Undersized is set while a replica that takes part again is smaller than its volume, which
	// grew without it: it is grown before anybody uses it (S117).
	Undersized bool
	// Sequence is the host's last record of this volume; later ones are above it (S16).
	Sequence uint64
	// Size is what the host last reported of the device, in bytes; an expansion is
	// done when it is the volume's.
	Size int64
	// Limits are those the host last reported in force.
	Limits Limits
	// ReplicaSync is nil for a local volume, and where the log knows nothing of the replica's
	// content. Like the Volume it is immutable; withReplication copies it.
	*ReplicaSync
}

// ReplicaState is what the host last reported of a replica's device.
type ReplicaState uint8

const (
	// ReplicaPlanned: not yet reported made.
	ReplicaPlanned ReplicaState = iota + 1
	// ReplicaPresent: reported made.
	ReplicaPresent
	// ReplicaMissing: a Ready volume's device was reported missing (S14: never made again).
	ReplicaMissing
	// ReplicaGone: reported removed.
	ReplicaGone
	// ReplicaLeaving: being removed while the volume stays.
	ReplicaLeaving
)

// ReplicaSync is what the log knows of the content of one replica of a replicated volume,
// and of its host's DRBD.
type ReplicaSync struct {
	// UpToDate: it is recorded that it has every acknowledged write, in the attachment
	// that Boot and Attachment name (S5).
	UpToDate bool
	// Outdated: the peer was primary without it. It reconnects only by discarding its own
	// content (S9), never as primary.
	Outdated   bool
	Boot       string
	Attachment uint64 // how often it was attached since it was created
	// Observed is the last observation that its own host reported.
	Observed ReplicaObservation
	// DiskFailed is the attachment in which its kernel detached the disk after an I/O error,
	// as one of the hosts saw; 0: none. The content may miss writes that no bitmap names, and
	// is not used until all of it was copied again (S67).
	DiskFailed uint64
	// NotKeptReason is why the content of an outdated replica was not copied to a snapshot yet,
	// so that it cannot be discarded (S9).
	NotKeptReason string
	// KeyGeneration is that of the LUKS header on an outdated replica: a rotation since then did not reach it (S65).
	KeyGeneration uint64
	// InSyncUUID is the content that both replicas had after the initial sync or at a clean
	// demotion, SoloPrimaryUUID that of a primary without its peer. Each counts for a
	// promotion only while no grant is newer (S5).
	InSyncUUID, SoloPrimaryUUID RecordedUUID
	// Synced: it was up to date once since its volume is in a relation (S43).
	Synced bool
	// Partial: a synchronisation into it has not ended, as far as its host reported: it has a part of each content.
	Partial bool
	// CutIndex is the index at which it was outdated, of a volume that is replicated between sites; of a group that was cut,
	// which is of one instant then, that at which the cut began. 0: it is not, or not known. Copied: since then it was the
	// target of a synchronisation, so what it has is of a later instant, if it is whole.
	CutIndex uint64
	Copied   bool
	// KeepDue: what it has is kept before it connects, as it would be overwritten (S50).
	KeepDue bool
}

// RecordedUUID is DRBD's current UUID of a content, and the index at which it was recorded.
type RecordedUUID struct{ Value, Index uint64 }

// ReplicaObservation is what a host observed of its replica's DRBD device.
type ReplicaObservation struct {
	Boot            string
	Attachment      uint64
	Primary         bool
	Disk            fsmpb.DiskState
	Connection      fsmpb.ConnectionState
	PeerDisk        fsmpb.DiskState
	UUID            uint64 // DRBD's current one, without its lowest bit; 0: none, or just created
	Suspended       bool
	Generation      uint64
	SyncPercent     uint32 // in steps of ten
	OutOfSync       int64  // bytes
	BackingCapacity int64  // bytes of volume that the backing device has room for
	Unconfigured    bool   // not in the kernel, and nothing of the volume is open
	// PeerBehind: its disk went on in a generation that is not the last one that both replicas had,
	// and left the peer's behind (S67).
	PeerBehind bool
	// FailedAttachment is the attachment in which the host recorded that its kernel detached the disk after
	// an error, until its metadata were made anew; 0: none (S67).
	FailedAttachment uint64
}

// Proto is the observation as a command carries it.
func (r ReplicaObservation) Proto() *fsmpb.ReplicaSeen {
	return &fsmpb.ReplicaSeen{
		BootId: r.Boot, Attach: r.Attachment, Primary: r.Primary, Disk: r.Disk, Connection: r.Connection, PeerDisk: r.PeerDisk,
		CurrentUuid: r.UUID, Suspended: r.Suspended, Generation: r.Generation, Percent: r.SyncPercent,
		OutOfSyncBytes: uint64(max(0, r.OutOfSync)), BackingBytes: r.BackingCapacity, Down: r.Unconfigured, PeerBehind: r.PeerBehind,
		FailedAttach: r.FailedAttachment,
	}
}

// ReplicaObservationFrom reads an observation.
func ReplicaObservationFrom(p *fsmpb.ReplicaSeen) ReplicaObservation {
	return ReplicaObservation{
		Boot: p.GetBootId(), Attachment: p.GetAttach(), Primary: p.GetPrimary(), Disk: p.GetDisk(), Connection: p.GetConnection(), PeerDisk: p.GetPeerDisk(),
		UUID: p.GetCurrentUuid(), Suspended: p.GetSuspended(), Generation: p.GetGeneration(), SyncPercent: p.GetPercent(),
		OutOfSync: int64(min(p.GetOutOfSyncBytes(), 1<<62)), BackingCapacity: p.GetBackingBytes(), Unconfigured: p.GetDown(), PeerBehind: p.GetPeerBehind(),
		FailedAttachment: p.GetFailedAttach(),
	}
}

// Connected tells whether the two hosts' kernels exchange writes.
func (r ReplicaObservation) Connected() bool {
	return r.Connection >= fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
}

func hashReplica(e *encoder, r *Replica) {
	e.str(string(r.Node))
	e.str(string(r.Host))
	e.str(string(r.Pool))
	e.u64(uint64(r.State))
	e.u64(r.Sequence)
	e.i64(r.Size)
	hashLimits(e, &r.Limits)
}

func (d *dictionary) replica(r *fsmpb.ReplicaRecord, x *Replica) {
	r.NodeRef, r.HostRef, r.PoolRef = d.ref(string(x.Node)), d.ref(string(x.Host)), d.ref(string(x.Pool))
	r.State, r.Sequence, r.Size, r.Limits, r.Short = uint32(x.State), x.Sequence, x.Size, x.Limits.Proto(), x.Undersized
}

func (x *dumpDecoder) replica(p *fsmpb.ReplicaRecord, err *error) Replica {
	return Replica{
		Node: NodeID(x.textAt(p.GetNodeRef(), err)), Host: HostID(x.textAt(p.GetHostRef(), err)), Pool: PoolID(x.textAt(p.GetPoolRef(), err)),
		State: ReplicaState(enumFrom(p.GetState(), uint32(ReplicaLeaving), err)), Sequence: p.GetSequence(),
		Size: p.GetSize(), Limits: LimitsFrom(p.GetLimits()), Undersized: p.GetShort(),
	}
}

// hashUndersized writes at the end of the volume's record.
func hashUndersized(e *encoder, replicas []Replica) {
	for i := range replicas {
		if r := &replicas[i]; r.Undersized {
			e.u64(fieldUndersized)
			e.str(string(r.Host))
		}
	}
}

func hashReplicaSync(e *encoder, l *Replica) {
	e.str(string(l.Host))
	e.bool(l.UpToDate)
	e.bool(l.Outdated)
	e.str(l.Boot)
	e.u64(l.Attachment)
	hashReplicaObservation(e, &l.Observed)
	e.u64(l.InSyncUUID.Value)
	e.u64(l.InSyncUUID.Index)
	e.u64(l.SoloPrimaryUUID.Value)
	e.u64(l.SoloPrimaryUUID.Index)
}

func hashReplicaObservation(e *encoder, r *ReplicaObservation) {
	e.str(r.Boot)
	e.u64(r.Attachment)
	e.bool(r.Primary)
	e.u64(uint64(r.Disk))
	e.u64(uint64(r.Connection))
	e.u64(uint64(r.PeerDisk))
	e.u64(r.UUID)
	e.bool(r.Suspended)
	e.u64(r.Generation)
	e.u64(uint64(r.SyncPercent))
	e.i64(r.OutOfSync)
	e.i64(r.BackingCapacity)
	e.bool(r.Unconfigured)
}

func (l *Replica) syncRecord() *fsmpb.LegRecord {
	return &fsmpb.LegRecord{
		HostId: string(l.Host), UpToDate: l.UpToDate, Outdated: l.Outdated, BootId: l.Boot, Attach: l.Attachment, Seen: l.Observed.Proto(),
		Settled: l.InSyncUUID.record(), Alone: l.SoloPrimaryUUID.record(), DiskFailed: l.DiskFailed, NotKept: l.NotKeptReason,
		KeyGeneration: l.KeyGeneration, Synced: l.Synced, KeepDue: l.KeepDue, Partial: l.Partial, CutIndex: l.CutIndex, Copied: l.Copied,
	}
}

func (k RecordedUUID) record() *fsmpb.KnownUUIDRecord {
	if k == (RecordedUUID{}) {
		return nil
	}
	return &fsmpb.KnownUUIDRecord{Uuid: k.Value, Index: k.Index}
}

func replicaSyncFromRecord(l *fsmpb.LegRecord) *ReplicaSync {
	return &ReplicaSync{
		UpToDate: l.GetUpToDate(), Outdated: l.GetOutdated(), Boot: l.GetBootId(), Attachment: l.GetAttach(),
		Observed:   ReplicaObservationFrom(l.GetSeen()),
		DiskFailed: l.GetDiskFailed(), NotKeptReason: l.GetNotKept(), KeyGeneration: l.GetKeyGeneration(),
		Synced: l.GetSynced(), KeepDue: l.GetKeepDue(), Partial: l.GetPartial(), CutIndex: l.GetCutIndex(), Copied: l.GetCopied(),
		InSyncUUID: RecordedUUID{l.GetSettled().GetUuid(), l.GetSettled().GetIndex()}, SoloPrimaryUUID: RecordedUUID{l.GetAlone().GetUuid(), l.GetAlone().GetIndex()},
	}
}

func hashReplicaSyncs(e *encoder, replicas []*Replica) {
	e.u64(uint64(len(replicas)))
	for _, r := range replicas {
		hashReplicaSync(e, r)
	}
}

func hashDiskFailures(e *encoder, replicas []*Replica) {
	for _, l := range replicas {
		if l.DiskFailed != 0 {
			e.u64(fieldDiskFailed)
			e.str(string(l.Host))
			e.u64(l.DiskFailed)
		}
	}
}

func hashPeersBehind(e *encoder, replicas []*Replica) {
	for _, l := range replicas {
		if l.Observed.PeerBehind {
			e.u64(fieldPeerBehind)
			e.str(string(l.Host))
		}
	}
}

func hashFailedAttachments(e *encoder, replicas []*Replica) {
	for _, l := range replicas {
		if l.Observed.FailedAttachment != 0 {
			e.u64(fieldFailedAttachment)
			e.str(string(l.Host))
			e.u64(l.Observed.FailedAttachment)
		}
	}
}

func hashNotKept(e *encoder, replicas []*Replica) {
	for _, l := range replicas {
		if l.NotKeptReason != "" {
			e.u64(fieldNotKept)
			e.str(string(l.Host))
			e.str(l.NotKeptReason)
		}
	}
}

func hashKeyGenerations(e *encoder, replicas []*Replica) {
	for _, l := range replicas {
		if l.KeyGeneration != 0 {
			e.u64(fieldKeyGeneration)
			e.str(string(l.Host))
			e.u64(l.KeyGeneration)
		}
	}
}
