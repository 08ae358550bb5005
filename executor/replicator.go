package executor

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Replicator keeps replicated volumes: DRBD above the devices of two hosts' pools. It
// decides nothing: whether a replica may be attached, connected or primary is decided by
// the state machine (S2, S5 to S9). Every step may be repeated after it was done. Methods
// may be called concurrently for different volumes; for one volume the agent holds a lock.
//
// Refusals are *fsm.Rejection. ErrReplicatorBusy means that an earlier command on the
// resource hangs in the kernel: no other is started until it ends.
type Replicator interface {
	// Check returns why this host cannot hold replicated volumes, nil when it can: it checks the
	// kernel's module, its tools, and that the kernel runs this program as its handler (S13).
	Check(ctx context.Context) error
	// Version is the kernel module's, such as 8.4.11, and the most replicas that it can
	// keep of one volume.
	Version() (version string, replicas uint32)
	// BackingSize is how many bytes the backing device of a volume of size bytes needs:
	// DRBD's metadata lie behind the content. BackingCapacity is the inverse: the size of
	// the largest volume, in whole units, that a backing device of so many bytes can hold.
	BackingSize(size int64) int64
	BackingCapacity(backing int64) int64
	// Observe reads the kernel's state, and the metadata on the backing device when the
	// kernel does not have it attached. It changes nothing. Backing is the path of the
	// backing device, empty when that does not exist.
	Observe(ctx context.Context, id fsm.VolumeID, minor uint32, backing string) (ResourceStatus, error)
	// ListSuspended lists the volumes whose I/O DRBD suspends now.
	ListSuspended(ctx context.Context) ([]fsm.VolumeID, error)
	// ListResources lists the volumes that have a resource in the kernel or a resource file.
	ListResources(ctx context.Context) ([]fsm.VolumeID, error)
	// Watch calls changed for each volume that the kernel reports an event of, until ctx
	// ends. When the kernel's stream of events ends it opens another.
	Watch(ctx context.Context, changed func(fsm.VolumeID)) error

	// Configure writes the resource's file atomically. The kernel reads it at the next
	// step that uses it, or at Adjust.
	Configure(ctx context.Context, r ResourceConfig) error
	// Adjust makes the kernel's options equal to the file's, without attaching,
	// connecting or changing a role.
	Adjust(ctx context.Context, id fsm.VolumeID) error
	// RemoveConfig removes the resource's file. It is Busy while the kernel has the resource.
	RemoveConfig(ctx context.Context, id fsm.VolumeID) error

	// CreateMetadata makes the metadata on the backing device. Only for a volume that is
	// being created; existing metadata of this resource stay.
	CreateMetadata(ctx context.Context, id fsm.VolumeID) error
	// RemakeMetadata makes the metadata of a disk that is not attached anew: whatever it
	// holds, the next connection copies all of it from the peer.
	RemakeMetadata(ctx context.Context, id fsm.VolumeID) error
	// Attach creates the resource and its device in the kernel and attaches the disk. It
	// does not connect.
	Attach(ctx context.Context, id fsm.VolumeID) error
	// Detach detaches the disk; with force even while writes to it hang.
	Detach(ctx context.Context, id fsm.VolumeID, force bool) error
	// Connect begins to connect to the peer. With discard, where the two replicas have
	// diverged this one's data are discarded.
	Connect(ctx context.Context, id fsm.VolumeID, discard bool) error
	// Disconnect ends the connection by force: this replica stays UpToDate and its peer,
	// if it is primary, suspends its I/O (S8). There is no disconnecting without force.
	Disconnect(ctx context.Context, id fsm.VolumeID) error
	// NewUUID makes the first generation of a volume whose replicas are connected and just
	// created: from then on both are UpToDate, without a synchronisation.
	NewUUID(ctx context.Context, id fsm.VolumeID) error
	// SetPrimary makes the replica primary. Force overrides an Outdated or Consistent
	// disk, and is only for a decision that is in the log (S8).
	SetPrimary(ctx context.Context, id fsm.VolumeID, force bool) error
	// SetSecondary makes the replica secondary. It is Busy while the device is open.
	SetSecondary(ctx context.Context, id fsm.VolumeID) error
	// SuspendIO suspends the I/O of a primary until ResumeIO, whatever becomes of its peer (S45).
	SuspendIO(ctx context.Context, id fsm.VolumeID) error
	// ResumeIO lets suspended I/O continue, for whichever reason it is suspended (S9).
	ResumeIO(ctx context.Context, id fsm.VolumeID) error
	// Invalidate discards this replica's content: all of it is copied from the peer, at once or,
	// where the replica is StandAlone and Inconsistent already, at the next connection.
	Invalidate(ctx context.Context, id fsm.VolumeID) error
	// Resize grows the device of a connected primary to what both backing devices can hold, and
	// checks that it has at least size bytes. With alone the primary has no peer, and grows to
	// size bytes without one; that is only for what the log says is the volume's only replica.
	Resize(ctx context.Context, id fsm.VolumeID, size int64, alone bool) error
	// Verify begins an online comparison of the two replicas.
	Verify(ctx context.Context, id fsm.VolumeID) error
	// Down removes the resource from the kernel. It must be secondary.
	Down(ctx context.Context, id fsm.VolumeID) error
}

// ResourceConfig is the content of a resource's file.
type ResourceConfig struct {
	Volume      fsm.VolumeID
	Protocol    fsmpb.Protocol
	Minor, Port uint32
	BackingPath string // of the backing device
	Node        fsm.NodeID
	Address     string // IP
	PeerNode    fsm.NodeID
	PeerAddress string
	// Secret authenticates the peers to each other. It is derived from both hosts' keys
	// (SharedSecret) and is written to the file, of mode 0600, and nowhere else.
	Secret string
}

// ResourceStatus is what was observed of a resource.
type ResourceStatus struct {
	HasConfig  bool // its file is there
	InKernel   bool
	Primary    bool
	PeerRole   string // "Primary", "Secondary", "Unknown"
	Disk       fsmpb.DiskState
	Connection fsmpb.ConnectionState
	PeerDisk   fsmpb.DiskState
	Suspended  bool
	// Frozen: SuspendIO holds the I/O back. Then it is Suspended as well.
	Frozen bool
	// HasMetadata: the backing device has valid metadata of DRBD. JustCreated: no generation
	// was made since they were created. Both are known only of an attached disk or of a
	// backing device that can be read.
	HasMetadata, JustCreated bool
	UUID                     uint64 // current, without its lowest bit
	BitmapUUID               uint64 // of the generation that the bitmap is relative to; 0: the peer follows
	Size                     int64  // bytes of the device; 0: not known
	Path                     string // of its device node, such as /dev/drbd7
	Number                   uint64 // as in stat's st_rdev
	SyncPercent              int    // percent of a resynchronisation or verification; -1: none is under way
	OutOfSync                int64  // bytes
	// Requests is how many reads, writes and flushes of its device have not ended. Transferred is how many bytes were
	// read, written, sent and received for it; it changes while they end.
	Requests, Transferred int64
}

// ErrReplicatorBusy means that an earlier command on the resource hangs in the kernel.
var ErrReplicatorBusy = errors.New("an earlier command on the resource has not ended yet")

// MetadataWiper is a Replicator that can remove DRBD's metadata from a backing device:
// one that was copied from a replicated volume has its source's metadata.
type MetadataWiper interface {
	// WipeMetadata removes DRBD's metadata from the backing device of the volume.
	WipeMetadata(ctx context.Context, id fsm.VolumeID) error
}

// SyncReader is a Replicator that tells of all its resources at once how much their replicas differ, and which are suspended.
type SyncReader interface {
	// ListSync returns the status of each of this host's resources that the kernel has. It runs no command, so it answers
	// while one hangs. On a host whose kernel has no replicator there is none.
	ListSync(ctx context.Context) (map[fsm.VolumeID]SyncStatus, error)
}

// SyncStatus is how much the two replicas of a volume differ, as this host's kernel counts it now.
type SyncStatus struct {
	Connection fsmpb.ConnectionState
	OutOfSync  int64 // bytes that the peer does not have, or has otherwise
	Percent    int   // of a resynchronisation or verification; -1: none is under way
	Suspended  bool  // the kernel holds back the I/O of the volume's users
}
