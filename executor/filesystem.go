package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// FilesystemTools makes filesystems larger and gives clones an identity of their own.
type FilesystemTools interface {
	// ExpandFilesystem grows the filesystem to the device's size: xfs where it is
	// mounted, ext4 where it is mounted if the kernel lets it, else unmounted.
	ExpandFilesystem(ctx context.Context, device Device, fsType, path string) error
	// ChangeUUID gives an unmounted clone a UUID of its own, where its filesystem
	// would refuse a duplicate at mount.
	ChangeUUID(ctx context.Context, device Device, format Filesystem) error
	// FilesystemSize is what the filesystem on the device believes its size to be, in bytes.
	FilesystemSize(ctx context.Context, device Device, fsType string) (int64, error)
}

// Throttle puts a volume's I/O limits in force on its block device.
type Throttle interface {
	// Apply makes the limits hold for the device; zero limits end them. It reads
	// back what it wrote.
	Apply(ctx context.Context, device Device, limits fsm.Limits) error
}
