package plan

import (
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Grant is the right to bring a volume up that one call read from the quorum (S2).
// It is never on disk, and worth nothing in another session.
type Grant struct {
	Session    uint64
	Epoch      fsm.Epoch
	Path       string // to stage at
	Block      bool
	ReadOnly   bool
	FS         executor.Filesystem
	Formatting bool // the state is `formatting`: mkfs is owed, and may be repeated (S15)
	// Cloned: the filesystem is a source's; fs.UUID is to be its own, and the log is to
	// be told so before the first mount.
	Cloned bool
}

// VolumeSpec is what a volume should be on this host. Its parts are asked for one at
// a time: a call brings up or takes down, the background creates and removes.
type VolumeSpec struct {
	Volume      fsm.VolumeID
	Goal        fsm.Goal // zero: make and remove nothing
	Size        int64    // bytes
	TakeDown    bool     // nothing of it may be up
	DropTargets []string // targets that may not be bound
	Grant       *Grant   // bring it up
	Source      fsm.Source
	// SourceSize is how many bytes of content a source that is a snapshot has; 0: not known.
	SourceSize int64
	// Expanding: an operation may be an expansion, so a device below size is to grow.
	Expanding bool
	// Limits are to be in force on the device; nil: not said.
	Limits *fsm.Limits
	// What the host can do.
	CanExpandFilesystem, CanThrottle bool
	Bind                             *records.TargetRecord // bind it, with the grant
}

// observed is what a volume is on this host.
type ObservedVolume struct {
	executor.Device
	Replica *ObservedReplica // of a replicated volume
	Staged  bool             // its filesystem is mounted at the staging path
	// stagedAt is that path as the kernel names it.
	StagingPath   string
	BoundTargets  []string // its targets that are mounted
	ForeignMounts []string // where else it is mounted
	Content       executor.Content
	// recorded: the record on disk names what the grant brings up; marked: it says
	// that this host began to make the grant's filesystem (S15).
	recorded, formatBegun bool
	// targetRecorded: the record on disk names the target to be bound.
	targetRecorded bool
	// olderEpoch: what is recorded belongs to an earlier publication than the grant's (S3).
	olderEpoch bool
	// Formatted: mkfs ended under this grant.
	Formatted     bool
	recordedSize  int64       // the size that the record says the image had
	FilesystemFor int64       // the device's size for which the filesystem was made or grown
	Limits        *fsm.Limits // in force; nil: not known
	mayBeLimited  bool        // the record says that some may be
	mayBeTorn     bool        // the record says that the image may be torn
}

// isUp tells whether anything of the volume is given out.
func (o *ObservedVolume) isUp() bool {
	return o.Staged || len(o.BoundTargets) > 0 || len(o.ForeignMounts) > 0 || o.Active()
}

// mounted tells whether it is, anywhere.
func (o *ObservedVolume) isMounted() bool {
	return o.Staged || len(o.BoundTargets) > 0 || len(o.ForeignMounts) > 0
}

// frozen tells whether somebody may still wait for a write to it.
func (o *ObservedVolume) ioSuspended() bool { return o.Replica != nil && o.Replica.Suspended }

// DeviceSize is the size of the block device in bytes: that of a replicated volume
// follows when the devices below both replicas are as large.
func (o *ObservedVolume) DeviceSize() int64 {
	if o.Replica != nil && o.Replica.Primary && o.Replica.ResourceStatus.Size > 0 {
		return o.Replica.ResourceStatus.Size
	}
	return o.Size
}

// CompareRecord tells what of the wanted is in the record on disk.
func (o *ObservedVolume) CompareRecord(r *records.VolumeRecord, want *VolumeSpec) {
	o.recordedSize, o.FilesystemFor, o.mayBeLimited, o.mayBeTorn = r.Size, r.FilesystemFor, r.MayBeLimited, r.MayBeTorn
	if want == nil || want.Grant == nil {
		return
	}
	g := want.Grant
	o.recorded = r.Staging != nil && *r.Staging == records.StagingRecord{Epoch: g.Epoch, Path: g.Path, Block: g.Block}
	o.olderEpoch = r.Staging != nil && r.Staging.Epoch.Compare(g.Epoch) < 0
	o.formatBegun = g.FS.UUID != "" && r.Formatting == g.FS.UUID
	if want.Bind != nil {
		t := r.Target(want.Bind.Path)
		o.targetRecorded = t != nil && *t == *want.Bind
	}
}
