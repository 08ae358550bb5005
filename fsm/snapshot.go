package fsm

import "time"

// SnapshotID is `hs-` plus a UUID: CSI's snapshot_id.
type SnapshotID string

// GroupSnapshotID is `hgs-` plus a UUID.
type GroupSnapshotID string

// Snapshot is a volume's content at one instant, kept in the pool of its source's replica. It
// outlives its source. A *Snapshot that came out of a State is immutable.
type Snapshot struct {
	ID          SnapshotID
	Name        string
	Fingerprint []byte
	Source      VolumeID
	Group       GroupSnapshotID // empty: none
	// Node, Host and Pool are where it is kept.
	Node NodeID
	Host HostID
	Pool PoolID
	// Size is the source's when the snapshot was taken, in bytes.
	Size int64
	// Format and Capabilities are the source's when the snapshot was taken: a volume made from
	// it has this format and is never formatted (S15).
	Format       Format
	Capabilities []Capability
	Phase        SnapshotPhase
	// TakenAt is when it was taken; constant from then on.
	TakenAt time.Time
	// Frozen and TakenAt of a group's member are of the group's current attempt; it is
	// Ready when its group is.
	Frozen  bool
	Missing bool // its host reported the file missing
	// Gone: no host keeps anything of it, as it was removed or its host was lost.
	// It reserves nothing then.
	Gone bool
	// Error is why it is Failed.
	Error     string
	Sequence  uint64
	Operation *Operation // of taking or deleting it, with the copy's progress; a member has its group's
	Created   Epoch
	Modified  uint64
	// KeptCopy is set for a kept copy of an outdated replica. Such a snapshot has no name.
	KeptCopy *KeptCopy
}

// SnapshotPhase is a snapshot's life.
type SnapshotPhase uint8

const (
	// SnapshotTaking: decided; its host has not reported it taken.
	SnapshotTaking SnapshotPhase = iota + 1
	// SnapshotReady: taken, complete, and its group too.
	SnapshotReady
	// SnapshotDeleting: the name is free; the record is the pending removal.
	SnapshotDeleting
	// SnapshotFailed: it could not be taken, its group was aborted, or its host was lost;
	// the next create with the name begins again.
	SnapshotFailed
)

// GroupSnapshot is snapshots of several volumes at one instant.
type GroupSnapshot struct {
	ID          GroupSnapshotID
	Name        string
	Fingerprint []byte
	Members     []SnapshotID // in order of their sources
	Phase       GroupPhase
	// Attempt numbers the freezes; reports of another attempt do not count.
	Attempt uint32
	TakenAt time.Time // of the first member taken
	Error   string    // why the last attempt was aborted
	// Operation is of freezing and taking, or of the delete; nil when Ready.
	Operation *Operation
	Created   Epoch
	Modified  uint64
}

// GroupPhase is a group snapshot's life.
type GroupPhase uint8

const (
	// GroupFreezing: hosts freeze the members; none is taken.
	GroupFreezing GroupPhase = iota + 1
	// GroupTaking: all were frozen at once; hosts take the snapshots.
	GroupTaking
	// GroupReady: all are taken, under one freeze.
	GroupReady
	// GroupAborting: an attempt was aborted, for Error; the snapshots taken are being
	// removed. When all members are Gone, the next create with the name begins another
	// attempt; from feature level 2 on the record is removed then.
	GroupAborting
	// GroupDeleting: members are being removed.
	GroupDeleting
)

// Source is what a volume's content is made from; at most one is set.
type Source struct {
	Snapshot SnapshotID
	Volume   VolumeID
}

// IsZero tells an empty volume's source.
func (s Source) IsZero() bool { return s == Source{} }

// Limits bound a volume's I/O on the host where it is staged; 0: none.
type Limits struct {
	ReadIOPS, WriteIOPS uint64
	ReadBPS, WriteBPS   uint64 // bytes a second
}

// DesiredSnapshot is the desired state of one host for one snapshot.
type DesiredSnapshot struct {
	Snapshot SnapshotID
	Source   VolumeID
	Pool     PoolID
	Size     int64 // bytes; of the source when the snapshot was decided
	Goal     SnapshotGoal
	Group    GroupSnapshotID
	Attempt  uint32 // of the group, or of the operation's retries
	Sequence uint64
	// Frozen, in a group: this host reported this attempt's freeze.
	Frozen bool
	// Operation is the snapshot's or its group's; Retry changes when an operator retries it.
	Operation OperationID
	Retry     uint32
}

// SnapshotGoal is the one thing a host may do for a snapshot.
type SnapshotGoal uint8

const (
	// SnapshotGoalTake: take it; when it is in no group, freeze before and thaw after.
	SnapshotGoalTake SnapshotGoal = iota + 1
	// SnapshotGoalFreeze: freeze the source for a group's attempt, and report.
	SnapshotGoalFreeze
	// SnapshotGoalKeep: it should be there; thaw what was frozen for it.
	SnapshotGoalKeep
	// SnapshotGoalThaw: the group was aborted: thaw, remove what was taken, and report
	// SnapshotGone with this attempt.
	SnapshotGoalThaw
	// SnapshotGoalRemove: thaw what was frozen for it, remove it, and report SnapshotGone.
	SnapshotGoalRemove
)
