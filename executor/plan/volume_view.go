package plan

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Grant is the right to bring a volume up that one call read from the quorum (S2).
// It is never on disk, and is valid only in the session that it was read in.
type Grant struct {
	Session    uint64
	Epoch      fsm.Epoch
	Path       string // to stage at
	Block      bool
	ReadOnly   bool
	FS         executor.Filesystem
	Formatting bool // the state is `formatting`: mkfs is to be run, and may be repeated (S15)
	// FormatBegunBefore: mkfs was begun under an earlier publication of the same incarnation, perhaps on another host.
	FormatBegunBefore bool
	// FormatBegunInLostLog: mkfs was begun in an earlier incarnation: it may have ended, and the filesystem been used since (S1).
	FormatBegunInLostLog bool
	// Cloned: the filesystem was copied from a source. FS.UUID is to become its UUID, and that
	// is committed before the first mount.
	Cloned bool
	// Crypt is set for an encrypted volume.
	Crypt *CryptGrant
}

// CryptGrant is what the log says of the LUKS header.
type CryptGrant struct {
	UUID string
	// KeyGeneration says how often the key was replaced.
	KeyGeneration uint64
	Formatting    bool // it is to be made, and that may be repeated (S15)
	// FormatBegunBefore: that was begun under an earlier publication of the same incarnation, perhaps on another host.
	FormatBegunBefore bool
	Cloned            bool // it was copied from a source, and is to get this UUID
	Discards          bool // pass through the mapping (S61)
	// Restore: where the header is missing, this host may write its backup of it (S62).
	Restore bool
}

// VolumeSpec is what a volume should be on this host. Each user sets only its own part:
// a call brings up or takes down, the background creates and removes.
type VolumeSpec struct {
	Volume      fsm.VolumeID
	Goal        fsm.Goal // zero: neither create nor remove
	Size        int64    // bytes
	TakeDown    bool     // nothing of it may stay mounted or active
	DropTargets []string // targets that may not stay bound
	Grant       *Grant   // bring it up
	Source      fsm.Source
	// Import is the identity of the device that is taken in by Goal, or given back; empty: it is made, or removed.
	Import string
	// ImportDRBD is set while that is a replica of a DRBD resource of others.
	ImportDRBD *fsm.DesiredDRBDImport
	// SourceSize is how many bytes of content a source that is a snapshot has; 0: not known.
	SourceSize int64
	// Expanding: the current operation may be an expansion, so a device smaller than Size is to grow.
	Expanding bool
	// Replicated: it was made of desired state that has a replica here.
	Replicated bool
	// Private: it is brought up as far as an unattached mount of its filesystem needs (S61).
	Private bool
	// Limits are to be in force on the device; nil: not known.
	Limits *fsm.Limits
	// What the host can do.
	CanExpandFilesystem, CanThrottle bool
	Bind                             *records.TargetRecord // bind this target, under the grant
}

// ObservedVolume is what a volume is on this host.
type ObservedVolume struct {
	executor.Device
	Replica *ObservedReplica // of a replicated volume
	Crypt   *ObservedCrypt   // of an encrypted volume: Device is the mapping then, and Size what it can grow to
	Staged  bool             // its filesystem is mounted at the staging path
	// StagingPath is where that is, as the kernel names it.
	StagingPath   string
	BoundTargets  []string // its targets that are mounted
	ForeignMounts []string // where else it is mounted
	Content       executor.Content
	// recorded: the record on disk names what the grant brings up. formatBegun: it says
	// that this host began to make the grant's filesystem (S15).
	recorded, formatBegun bool
	// headerBegun: the record says that this host began to make the grant's LUKS header.
	headerBegun bool
	// targetRecorded: the record on disk names the target to be bound.
	targetRecorded bool
	// olderEpoch: what is recorded belongs to an earlier publication than the grant's (S3).
	olderEpoch bool
	// Formatted: mkfs ended under this grant.
	Formatted     bool
	recordedSize  int64       // the size that the record says the image had
	FilesystemFor int64       // the device's size for which the filesystem was made or grown
	Limits        *fsm.Limits // in force; nil: not known
	mayBeLimited  bool        // the record says that limits may be in force
	mayBeTorn     bool        // the record says that the image may be torn
	// importVerified, metadataReplaced: the record says so of a replica of a DRBD resource of others.
	importVerified, metadataReplaced bool
}

// isUp reports whether anything of the volume is mounted, bound or active.
func (o *ObservedVolume) isUp() bool {
	return o.Staged || len(o.BoundTargets) > 0 || len(o.ForeignMounts) > 0 || o.Active() || o.isActiveBelow()
}

// isActiveBelow reports whether the device below the encryption, or else the volume's, is active.
func (o *ObservedVolume) isActiveBelow() bool {
	if o.Crypt != nil {
		return o.Crypt.Below.Active()
	}
	return o.Active()
}

// isMounted reports whether it is mounted or bound anywhere.
func (o *ObservedVolume) isMounted() bool {
	return o.Staged || len(o.BoundTargets) > 0 || len(o.ForeignMounts) > 0
}

// ioSuspended reports whether writers may be waiting in DRBD.
func (o *ObservedVolume) ioSuspended() bool { return o.Replica != nil && o.Replica.Suspended }

// DeviceSize is the size of the block device in bytes. A primary replica's device may be
// smaller than its backing device: it grows only when both hosts' backing devices have.
func (o *ObservedVolume) DeviceSize() int64 {
	if o.Crypt != nil && o.Crypt.Mapping.Exists {
		return o.Crypt.Mapping.Size
	}
	return o.SizeBelow()
}

// SizeBelow is the size in bytes that a mapping can have.
func (o *ObservedVolume) SizeBelow() int64 {
	if o.Replica != nil && o.Replica.Primary && o.Replica.ResourceStatus.Size > 0 {
		return o.Replica.ResourceStatus.Size
	}
	return o.Size
}

// CompareRecord fills in which parts of want the record on disk has.
func (o *ObservedVolume) CompareRecord(r *records.VolumeRecord, want *VolumeSpec) {
	o.recordedSize, o.FilesystemFor, o.mayBeLimited, o.mayBeTorn = r.Size, r.FilesystemFor, r.MayBeLimited, r.MayBeTorn
	if i := r.ImportDRBD; i != nil {
		o.importVerified, o.metadataReplaced = i.Verified, i.Replaced
	}
	if want == nil || want.Grant == nil {
		return
	}
	g := want.Grant
	o.recorded = r.Staging != nil && *r.Staging == records.StagingRecord{Epoch: g.Epoch, Path: g.Path, Block: g.Block}
	o.olderEpoch = r.Staging != nil && r.Staging.Epoch.Compare(g.Epoch) < 0
	o.headerBegun = g.Crypt != nil && r.FormattingHeader == g.Crypt.UUID
	o.formatBegun = g.FS.UUID != "" && r.Formatting == g.FS.UUID
	if want.Bind != nil {
		t := r.Target(want.Bind.Path)
		o.targetRecorded = t != nil && *t == *want.Bind
	}
}
