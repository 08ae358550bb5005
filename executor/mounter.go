package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

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
