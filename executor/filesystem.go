package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// FilesystemTools expands filesystems and changes the UUIDs of clones.
type FilesystemTools interface {
	// ExpandFilesystem grows the filesystem to the device's size: xfs while it is mounted
	// at path, ext4 mounted where the kernel allows that, else unmounted.
	ExpandFilesystem(ctx context.Context, device Device, fsType, path string) error
	// ChangeUUID gives an unmounted clone a filesystem UUID of its own, where mounting two
	// filesystems with one UUID would be refused.
	ChangeUUID(ctx context.Context, device Device, format Filesystem) error
	// FilesystemSize is the filesystem's size in bytes by its own superblock.
	FilesystemSize(ctx context.Context, device Device, fsType string) (int64, error)
}

// Throttle puts a volume's I/O limits in force on its block device.
type Throttle interface {
	// Apply puts the limits in force on the device and reads them back; zero limits
	// remove them.
	Apply(ctx context.Context, device Device, limits fsm.Limits) error
}
