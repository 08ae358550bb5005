package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// Replication is what a volume with more than one replica has beside them. A
// *Replication that came out of a State is immutable.
type Replication struct {
	Protocol fsmpb.Protocol
	// ReplicaCount is how many replicas it was created with.
	ReplicaCount uint32
	// Minor is its own in the whole cluster, until all its hosts reported it gone. Port is
	// its own on each of its hosts; others have it on other hosts.
	Minor, Port uint32
	// Seed is the host whose replica gives the first content, chosen before any
	// metadata is made, so that there is neither an initial sync nor a split brain at birth.
	Seed HostID
	// Born is the index at which both hosts had reported the birth; 0: not yet.
	InitialSyncIndex uint64
	// Generation is the index of the last granted question, takeover or birth (S7).
	Generation uint64
	// LastGrantIndex is the index of the last grant to be primary that was made to anybody.
	LastGrantIndex uint64
	// Primary is who may be primary now, nil when nobody may.
	Primary *PrimaryGrant
	Forced  *ForcedPrimary // the recorded decision that the next promotion may rest on, until it was carried out
	// Leaving are the hosts of replicas that are being removed and whose ReplicaSync is kept, in
	// the order in which their removal began: the last good copy of a volume is never removed,
	// and takes part again as what it was (S71).
	Leaving []HostID
}

// Primary is the right of one host, in one boot, to be primary.
type PrimaryGrant struct {
	Node  NodeID
	Host  HostID
	Boot  string // empty: the host gave the right back, and asks again when it stages
	Epoch Epoch  // of the publication
	Index uint64 // when it was granted
	Done  bool   // the host reported, under this publication, that it is primary
}

// ReplicaSync is what the log knows of the content of one replica of a replicated volume,
// and of its host's DRBD.
type ReplicaSync struct {
	// UpToDate: it has every acknowledged write, by the log's word, in the attachment
	// that Boot and Attach name (S5).
	UpToDate bool
	// Outdated: the peer went on without it. It comes back only by discarding what it
	// has (S9), never as primary.
	Outdated   bool
	Boot       string
	Attachment uint64 // how often it was attached since it was made
	// Observed is the last that its own host reported.
	Observed ReplicaObservation
	// DiskFailed is the attachment whose disk its kernel gave up under a live host, as its
	// peer saw, 0 when none: that content may miss what bitmaps do not name, and counts for
	// nothing until it was copied wholly (S67).
	DiskFailed uint64
	// NotKeptReason is why what it has is not kept yet, so that it cannot be discarded (S9).
	NotKeptReason string
	// InSyncUUID is the content that both hosts had at birth or at a clean demotion;
	// Alone that of a primary that went on without its peer. Each counts for a
	// promotion only while no grant is newer (S5).
	InSyncUUID, SoloPrimaryUUID RecordedUUID
}

// RecordedUUID is a content that was recorded, and when.
type RecordedUUID struct{ Value, Index uint64 }

// Forced is an operator's, or a CSI-Addons caller's, recorded decision (S8).
type ForcedPrimary struct {
	Host              HostID // whose replica goes on
	Index             uint64
	GivenUpGeneration uint64 // the generation whose acknowledged writes may be lost
	Reason            string
	PeerDead          bool // it was attested that the other host does not run any more
}

// ReplicaObservation is what a host observed of its replica.
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
	BackingCapacity int64  // bytes of volume that the device below has room for
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

// DesiredReplica is what the log wants of one host's replica of a replicated volume.
type DesiredReplica struct {
	Protocol    fsmpb.Protocol
	Minor, Port uint32
	// Seed: this host makes the volume's first generation when both replicas are
	// connected and just created.
	Seed bool
	// SyncFromSeed: the seed's content was made from a source, so the other replica is
	// synchronised from it before the volume is ready: it is invalidated once both are
	// connected and have a generation. It is false again when a host was seen
	// synchronising: nothing that was seen before that counts for the birth.
	SyncFromSeed    bool
	InitialSyncDone bool
	Generation      uint64 // what is observed after this wish was read is of this generation
	Address         string // this host's
	Peer            *ReplicaPeer
	// Connect: the kernel is to be connected to its peer; else `disconnect --force`,
	// which keeps an UpToDate disk and freezes the peer (S8).
	Connect bool
	// Outdated: this replica lost. It is torn down as a loser, and connects only by
	// discarding its own data (S9).
	Outdated bool
	UpToDate bool // by the log's word, in this attachment
	// Primary: this host should be primary under its publication. It still needs a
	// grant of its own boot and session for it (S2).
	Primary bool
	// PromotionDone: the log heard that it was, under this publication. From then on only
	// a staging asks to be primary again, after a reboot for example.
	PromotionDone   bool
	Force           bool               // a decision to force is recorded for this host
	Attachment      uint64             // the last attachment that the log heard of
	DiskFailed      uint64             // the attachment whose disk the peer saw given up; 0: none
	Observed        ReplicaObservation // the last that was recorded of this host
	BackingCapacity int64              // bytes that every replica's device below has room for
	InSyncUUID      uint64             // of the content both had at birth or at a clean demotion
}

// ReplicaPeer is the other replica's host.
type ReplicaPeer struct {
	Node      NodeID
	Host      HostID
	Address   string
	PublicKey []byte // X25519
	// UpToDate: it has every acknowledged write, by the log's word. Lost: it has not, as its
	// peer went on without it, its kernel gave its disk up or its device is missing.
	UpToDate, Incomplete bool
	// DiskAttached, for a replica whose disk failed or is not attached: it is there now. Its
	// host can be asked, and said under the current generation that its kernel has the disk
	// and does not call it outdated.
	DiskAttached bool
}
