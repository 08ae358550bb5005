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
	// LastGrantIndex is the index of the last grant to be primary, to whichever host.
	LastGrantIndex uint64
	// Primary is who may be primary now, nil when nobody may.
	Primary *PrimaryGrant
	Forced  *ForcedPrimary // the decision that the next promotion may rest on; nil once the host is primary
	// Leaving are the hosts of replicas that are being removed and whose ReplicaSync is kept, in
	// the order in which their removal began: the last good copy of a volume is never removed,
	// and takes part again as what it was (S71).
	Leaving []HostID
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
	// InSyncUUID is the content that both replicas had after the initial sync or at a clean
	// demotion, SoloPrimaryUUID that of a primary without its peer. Each counts for a
	// promotion only while no grant is newer (S5).
	InSyncUUID, SoloPrimaryUUID RecordedUUID
}

// RecordedUUID is DRBD's current UUID of a content, and the index at which it was recorded.
type RecordedUUID struct{ Value, Index uint64 }

// ForcedPrimary is an operator's, or a CSI-Addons caller's, decision to promote a replica
// that may miss acknowledged writes (S8).
type ForcedPrimary struct {
	Host              HostID // whose replica is promoted
	Index             uint64
	GivenUpGeneration uint64 // the generation whose acknowledged writes may be lost
	Reason            string
	PeerDead          bool // somebody attested that the other host does not run any more
}

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
}

// Proto is the observation as a command carries it.
func (r ReplicaObservation) Proto() *fsmpb.ReplicaSeen {
	return &fsmpb.ReplicaSeen{
		BootId: r.Boot, Attach: r.Attachment, Primary: r.Primary, Disk: r.Disk, Connection: r.Connection, PeerDisk: r.PeerDisk,
		CurrentUuid: r.UUID, Suspended: r.Suspended, Generation: r.Generation, Percent: r.SyncPercent,
		OutOfSyncBytes: uint64(max(0, r.OutOfSync)), BackingBytes: r.BackingCapacity, Down: r.Unconfigured,
	}
}

// ReplicaObservationFrom reads an observation.
func ReplicaObservationFrom(p *fsmpb.ReplicaSeen) ReplicaObservation {
	return ReplicaObservation{
		Boot: p.GetBootId(), Attachment: p.GetAttach(), Primary: p.GetPrimary(), Disk: p.GetDisk(), Connection: p.GetConnection(), PeerDisk: p.GetPeerDisk(),
		UUID: p.GetCurrentUuid(), Suspended: p.GetSuspended(), Generation: p.GetGeneration(), SyncPercent: p.GetPercent(),
		OutOfSync: int64(min(p.GetOutOfSyncBytes(), 1<<62)), BackingCapacity: p.GetBackingBytes(), Unconfigured: p.GetDown(),
	}
}

// Connected tells whether the two hosts' kernels exchange writes.
func (r ReplicaObservation) Connected() bool {
	return r.Connection >= fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED
}

// DesiredReplica is the desired state of one host's replica of a replicated volume.
type DesiredReplica struct {
	Protocol    fsmpb.Protocol
	Minor, Port uint32
	// Seed: this host sets the volume's first current UUID, when both replicas are
	// connected and just created.
	Seed bool
	// SyncFromSeed: the seed's content was created from a source, so the other replica is
	// synchronised from it before the volume is Ready: it is invalidated once both are
	// connected and have a current UUID. It is false again once a host reported that it
	// synchronises: no earlier observation counts for the initial sync.
	SyncFromSeed    bool
	InitialSyncDone bool
	Generation      uint64 // of what the host observes after it read this desired state
	Address         string // this host's
	Peer            *ReplicaPeer
	// Connect: the kernel is to be connected to its peer; else `disconnect --force`,
	// which keeps an UpToDate disk and freezes the peer (S8).
	Connect bool
	// Outdated: the peer was primary without this replica. It is torn down, and connects
	// only by discarding its own data (S9).
	Outdated bool
	UpToDate bool // recorded so, in this attachment
	// Primary: this host should be primary under its publication. It still needs a
	// grant of its own boot and session for it (S2).
	Primary bool
	// PromotionDone: the host reported that it was primary under this publication. From then
	// on only staging requests another promotion, after a reboot for example.
	PromotionDone   bool
	Force           bool               // a decision to force is recorded for this host
	Attachment      uint64             // the last that was recorded
	DiskFailed      uint64             // the attachment in which the disk failed; 0: none
	Observed        ReplicaObservation // the last that was recorded of this host
	BackingCapacity int64              // bytes of volume that every replica's backing device has room for
	InSyncUUID      uint64             // of the content that both had after the initial sync or at a clean demotion
}

// ReplicaPeer is the other replica's host.
type ReplicaPeer struct {
	Node      NodeID
	Host      HostID
	Address   string
	PublicKey []byte // X25519
	// UpToDate: it is recorded that it has every acknowledged write. Incomplete: it has not,
	// as its peer was primary without it, its disk failed or its device is missing.
	UpToDate, Incomplete bool
	// DiskAttached is set only for a host whose own disk failed or is not attached: the peer's
	// is. That host is reachable, and reported under the current generation that its kernel
	// has the disk and does not call it outdated.
	DiskAttached bool
}
