package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Mounter mounts filesystems, and binds filesystems or device nodes to paths. Paths are
// resolved without following symbolic links out of the roots that the host allows.
// Its answers about mounts come from the kernel's mount table.
//
// Refusals are *fsm.Rejection: Invalid for a path or a flag that is not
// allowed, Busy for a mount that is in use, Precondition when the path holds
// something else. No error holds a mount flag.
type Mounter interface {
	// CheckMount refuses a path that may not be used, and flags that the filesystem does not allow.
	CheckMount(path, fsType string, flags []string) error
	// CheckTarget refuses a path that nothing may be bound to: there is a mount, or something
	// that RemoveTarget would not remove. It changes nothing.
	CheckTarget(path string, node bool) error
	// Probe reads the whole first and last MiB of a device of size bytes and returns what
	// is on it. An unreadable device is an error, never Empty.
	Probe(ctx context.Context, device string, size int64) (Content, error)
	// Format makes the filesystem. The device must be empty (S15), unless again is set:
	// this host began to make a filesystem of this UUID on it before.
	Format(ctx context.Context, device string, format Filesystem, again bool) error
	// Mounts lists every mount of the device: of its filesystem and of its device node.
	Mounts(ctx context.Context, device Device) ([]Mount, error)
	// Mount mounts the device's filesystem on an existing directory. Done already is success.
	Mount(ctx context.Context, device Device, m MountOptions) error
	// Bind binds the staged filesystem, or the device node, to a path; a missing path is made.
	Bind(ctx context.Context, device Device, b BindOptions) error
	// Unmount ends the device's mounts at the path, and no others. Not mounted is success.
	Unmount(ctx context.Context, device Device, path string) error
	// Shutdown ends the device's filesystem at once without writing anything: whoever waits
	// for a sync of it gets an error, whatever the device answers later. It works while the
	// device's I/O is suspended. Not mounted, or done already, is success.
	Shutdown(ctx context.Context, device Device) error
	// Writers lists the processes that have the device, a device above it, or a file on their
	// filesystems open for writing, in whichever mount namespace, and those of containers that
	// have the volume and use asynchronous I/O, which may keep a file without a descriptor. It works while the device's
	// I/O is suspended. Those of an xfs that is shut down are left out: no write of them succeeds.
	Writers(ctx context.Context, device Device) ([]Process, error)
	// Kill sends a process of Writers the signal that ends it. Gone already is success.
	Kill(ctx context.Context, p Process) error
	// RemoveTarget removes an empty directory or an empty file that is no mount. Not there is
	// success. Anything else is Precondition or Invalid, and stays.
	RemoveTarget(ctx context.Context, path string) error
	// Stats measures the volume at a path where it is staged or bound.
	Stats(ctx context.Context, device Device, path string, block bool) (VolumeStats, error)
	// RealPath is the path as the kernel's mount table names it.
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
	// Empty means that both ends are zero, which alone does not prove the device empty (S15).
	Empty bool
	// Found is the filesystem whose superblock was read.
	Found Filesystem
}

// Mount is one line of the kernel's mount table that concerns a volume.
type Mount struct {
	Path       string
	DeviceNode bool // the device node is bound, not its filesystem
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
	StagingPath string // where the filesystem is staged; unused for a device node
	Path        string
	DeviceNode  bool // bind the device node to a file
	ReadOnly    bool
	FSType      string
	Flags       []string // of the volume's capability; never logged
	// MountGroup is a group id in decimal. Before a bind for writing, everything on the
	// filesystem is made readable and writable by that group; empty leaves it as it is.
	MountGroup string
}

// Usage is how much is used: bytes, or inodes.
type Usage struct{ Total, Used, Available int64 }

// VolumeStats is what NodeGetVolumeStats returns.
type VolumeStats struct {
	Bytes     Usage
	Inodes    Usage // zero for a raw volume
	Block     bool
	Condition fsm.Condition
}
