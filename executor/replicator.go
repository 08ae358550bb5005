package executor

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Replicator keeps replicated volumes: DRBD above the devices that two hosts' pools
// make. It does what it is told and decides nothing: whether a replica may be
// attached, connected or primary is the log's word (S2, S5 to S9). Every step may be
// asked again when it was done already. Methods may be called at once for different
// volumes; for one volume the executor holds a lock.
//
// Refusals are *fsm.Rejection. ErrReplicatorBusy says that an earlier command on the
// resource hangs in the kernel: nothing more is started until it ends.
type Replicator interface {
	// Check tells why this host cannot hold replicated volumes, nil when it can: the
	// kernel's module, its tools, and that the kernel runs this program as its handler (S13).
	Check(ctx context.Context) error
	// Version is the kernel module's, such as 8.4.11, and how many replicas of one
	// volume it can hold.
	Version() (version string, replicas uint32)
	// Backing is how many bytes the device below needs for a volume of size bytes:
	// its metadata lie behind the content. Room is the inverse: the largest volume,
	// in whole units, that a device of so many bytes has room for.
	BackingSize(size int64) int64
	BackingCapacity(backing int64) int64
	// Observe looks at the kernel, and at the metadata on the device below when the
	// kernel has it not attached. It changes nothing. Backing is the path of that
	// device, empty when it is not there.
	Observe(ctx context.Context, id fsm.VolumeID, minor uint32, backing string) (ResourceStatus, error)
	// Suspended lists the volumes whose I/O is frozen now.
	ListSuspended(ctx context.Context) ([]fsm.VolumeID, error)
	// ListResources lists the volumes that are configured in the kernel or in files.
	ListResources(ctx context.Context) ([]fsm.VolumeID, error)
	// Watch calls changed for each volume of which the kernel says something new,
	// until ctx ends. It comes back by itself when the kernel's stream ends.
	Watch(ctx context.Context, changed func(fsm.VolumeID)) error

	// Configure writes the resource's file, atomically. The kernel learns of it with
	// the next step that reads it, or by Adjust.
	Configure(ctx context.Context, r ResourceConfig) error
	// Adjust makes the kernel's options those of the file, without attaching,
	// connecting or changing a role.
	Adjust(ctx context.Context, id fsm.VolumeID) error
	// RemoveConfig removes the resource's file. It is Busy while the kernel has the resource.
	RemoveConfig(ctx context.Context, id fsm.VolumeID) error

	// CreateMetadata makes the metadata on the device below. Only for a volume that
	// is being made; metadata of this resource that were made already stay.
	CreateMetadata(ctx context.Context, id fsm.VolumeID) error
	// RemakeMetadata makes those of a disk that the kernel does not have anew: the next
	// connection synchronises it wholly from its peer, whatever it holds.
	RemakeMetadata(ctx context.Context, id fsm.VolumeID) error
	// Attach makes the resource and its device known and attaches the disk. It does
	// not connect.
	Attach(ctx context.Context, id fsm.VolumeID) error
	// Detach gives the disk up. With force also while writes to it are stuck.
	Detach(ctx context.Context, id fsm.VolumeID, force bool) error
	// Connect begins to connect to the peer. With discard this replica's own data are
	// given up where the two differ.
	Connect(ctx context.Context, id fsm.VolumeID, discard bool) error
	// Disconnect ends the connection with force: this replica stays UpToDate and its
	// peer, if it is primary, freezes (S8). Never without force.
	Disconnect(ctx context.Context, id fsm.VolumeID) error
	// NewUUID makes the first generation of a volume whose replicas are connected and
	// just created: both are UpToDate from then on, without a synchronisation.
	NewUUID(ctx context.Context, id fsm.VolumeID) error
	// SetPrimary makes the replica primary. Force overrides an Outdated or Consistent
	// disk and belongs to a recorded decision only (S8).
	SetPrimary(ctx context.Context, id fsm.VolumeID, force bool) error
	// SetSecondary ends that. Busy while the device is open.
	SetSecondary(ctx context.Context, id fsm.VolumeID) error
	// ResumeIO ends a freeze (S9).
	ResumeIO(ctx context.Context, id fsm.VolumeID) error
	// Invalidate gives this replica's content up: it is synchronised wholly from its peer,
	// at once, or at the next connection where it stands alone and is Inconsistent already.
	Invalidate(ctx context.Context, id fsm.VolumeID) error
	// Resize lets a connected primary grow to what both devices below have room for,
	// and checks that it did.
	Resize(ctx context.Context, id fsm.VolumeID, size int64) error
	// Verify begins to compare the two replicas.
	Verify(ctx context.Context, id fsm.VolumeID) error
	// Down takes the resource out of the kernel: it must be secondary.
	Down(ctx context.Context, id fsm.VolumeID) error
}

// ResourceConfig is what a resource's file says.
type ResourceConfig struct {
	Volume      fsm.VolumeID
	Protocol    fsmpb.Protocol
	Minor, Port uint32
	BackingPath string // path of the device below
	Node        fsm.NodeID
	Address     string // IP
	PeerNode    fsm.NodeID
	PeerAddress string
	// Secret is what the peers know each other by. It is derived from both hosts' keys
	// (SharedSecret), is in the file of mode 0600, and nowhere else.
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
	// HasMetadata: the device below has valid metadata of DRBD; Fresh: they were just
	// created, no generation was made yet. Both are known only of an attached disk or
	// a device below that can be read.
	HasMetadata, JustCreated bool
	UUID                     uint64 // current, without its lowest bit
	Size                     int64  // bytes of the device; 0: not known
	Path                     string // of its device node, such as /dev/drbd7
	Number                   uint64 // as in stat's st_rdev
	SyncPercent              int    // percent of a resynchronisation or verification; -1: none is under way
	OutOfSync                int64  // bytes
}

// ErrReplicatorBusy says that an earlier command on the resource hangs in the kernel.
var ErrReplicatorBusy = errors.New("an earlier command on the resource has not ended yet")

// MetadataWiper is a Replicator that can remove the metadata from a device below: a
// copy of a replicated volume's device has its source's.
type MetadataWiper interface {
	WipeMetadata(ctx context.Context, id fsm.VolumeID) error
}
