package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Backend keeps the devices of one pool. Everything it makes is named by the
// volume's id, so that a crash between "made" and "reported" is adopted, not
// repeated. Its methods may be called at once for different volumes; for one
// volume the executor holds a lock. executor/backendtest says what must hold.
//
// Refusals are *fsm.Rejection; other errors may be tried again.
type Backend interface {
	// ID is the pool's identity, also while the pool is absent (S12).
	ID() fsm.PoolID
	// Kind is the backend's name in RegisterNode.
	Kind() string
	// Facts measures the pool.
	Facts(ctx context.Context) PoolFacts
	// Observe looks at one volume. It changes nothing.
	Observe(ctx context.Context, id fsm.VolumeID) (Device, error)
	// Create makes the volume's image, size bytes that read as zero. One of the
	// same size that is there already is adopted, one of another is Incompatible.
	Create(ctx context.Context, id fsm.VolumeID, size int64) error
	// Remove makes the image and what an interrupted Create left go away. It is
	// InUse while a device is attached. Nothing there: done.
	Remove(ctx context.Context, id fsm.VolumeID) error
	// Attach makes the image a block device, exactly one, and says which. One
	// that is attached already is adopted when it is as read-only as asked,
	// else Busy. It is Precondition when there is no image.
	Activate(ctx context.Context, id fsm.VolumeID, readOnly bool) (Device, error)
	// Detach ends the block device, also when the image is gone; Busy while
	// somebody has it open. Not attached: done.
	Deactivate(ctx context.Context, id fsm.VolumeID) error
	// Inventory lists everything below the pool and in the kernel for it.
	Inventory(ctx context.Context) ([]InventoryItem, error)
}

// Device is what was observed of one volume's image and block device.
type Device struct {
	Absent     bool   // the pool is absent: the image is not known, the rest is (S12)
	Exists     bool   // the image is there, whole
	Unfinished bool   // an interrupted Create left something
	Size       int64  // bytes of the image
	Path       string // isOfAttempt the block device; empty when not attached
	Number     uint64 // of the block device, as in stat's st_rdev
	ReadOnly   bool   // the block device refuses writes
	// StablePath is a path of the block device that is never another volume's, for what is
	// written down; empty where the backend has none. Path may be another's after a
	// detach or a boot. It may be a symbolic link.
	StablePath string
}

// Active tells whether the image is a block device now.
func (d Device) Active() bool { return d.Path != "" }

// Mounter mounts filesystems and binds them, and device nodes, to paths. Paths
// are resolved without following symbolic links out of the roots that the host
// allows. What it says of mounts was read from the kernel's table.
//
// Refusals are *fsm.Rejection: Invalid for a path or a flag that is not
// allowed, Busy for a mount that is in use, Precondition when the path holds
// something else. No error holds a mount flag.
type Mounter interface {
	// Check tells whether a path may be used at all, and the flags with the filesystem.
	CheckMount(path, fsType string, flags []string) error
	// CheckTarget tells whether something may be bound to the path: nothing is there, or
	// what RemoveTarget would remove, and no mount. It changes nothing.
	CheckTarget(path string, node bool) error
	// Probe reads the whole first and last MiB of a device that must have size
	// bytes and says what is on it. An unreadable device is an error, never empty.
	Probe(ctx context.Context, device string, size int64) (Content, error)
	// Format makes the filesystem. Again is for a device on which this host began
	// to make this very filesystem before; else the device must be empty (S15).
	Format(ctx context.Context, device string, format Filesystem, again bool) error
	// Mounts lists every mount of the device: of its filesystem and of its node.
	Mounts(ctx context.Context, device Device) ([]Mount, error)
	// Mount mounts the device's filesystem on a folder that exists. Done already: done.
	Mount(ctx context.Context, device Device, m MountOptions) error
	// Bind binds the staged filesystem to a path, which it makes if it is not there.
	Bind(ctx context.Context, device Device, b BindOptions) error
	// Unmount ends the device's mounts at the path and nothing else. Not mounted: done.
	Unmount(ctx context.Context, device Device, path string) error
	// Shutdown ends the device's filesystem at once and writes nothing: who waits for
	// it to be synced gets an error, whatever the device says later. The device may be
	// frozen. Not mounted, or done already: done.
	Shutdown(ctx context.Context, device Device) error
	// RemoveTarget removes an empty folder or an empty file that is no mount. Not there:
	// done. Anything else is Precondition or Invalid, and is left as it is.
	RemoveTarget(ctx context.Context, path string) error
	// Stats measures what is at a path where the device is staged or bound.
	Stats(ctx context.Context, device Device, path string, block bool) (VolumeStats, error)
	// RealPath is the path as the kernel's table names it.
	RealPath(path string) (string, error)
}

// Filesystem is a kind of filesystem and its identity.
type Filesystem struct {
	Type string // "ext4" or "xfs"
	UUID string
}

// Content is what Probe read. The zero Content is a device that was not read.
type Content struct {
	Read bool
	// Empty: both ends are zero. It proves nothing by itself (S15).
	Empty bool
	// Found is the filesystem whose superblock is there.
	Found Filesystem
}

// Mount is one line of the kernel's table that concerns a volume.
type Mount struct {
	Path       string
	DeviceNode bool // the device's node is bound, not its filesystem
	ReadOnly   bool
}

// MountOptions say how to stage a filesystem.
type MountOptions struct {
	Path     string
	FSType   string
	ReadOnly bool
	Flags    []string // of the volume's capability; never logged
}

// BindOptions say what to bind where.
type BindOptions struct {
	StagingPath string // where the filesystem is staged; unused for nodes
	Path        string
	DeviceNode  bool // bind the device's node to a file
	ReadOnly    bool
	FSType      string
	Flags       []string // of the volume's capability; never logged
	// MountGroup is the group id, in decimal, that may read and write everything on the
	// filesystem before it is bound for writing; empty: all is left as it is.
	MountGroup string
}

// Usage is how much of something is used.
type Usage struct{ Total, Used, Available int64 }

// Stats is what NodeGetVolumeStats tells.
type VolumeStats struct {
	Bytes     Usage
	Inodes    Usage // zero for a raw volume
	Block     bool
	Condition fsm.Condition
}
