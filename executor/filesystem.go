package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// FilesystemTools expands filesystems, changes the UUIDs of clones and discards what filesystems do not use.
type FilesystemTools interface {
	// ExpandFilesystem grows the filesystem to the device's size: xfs while it is mounted
	// at path, ext4 mounted where the kernel allows that, else unmounted.
	ExpandFilesystem(ctx context.Context, device Device, fsType, path string) error
	// ChangeUUID gives an unmounted clone a filesystem UUID of its own, where mounting two
	// filesystems with one UUID would be refused.
	ChangeUUID(ctx context.Context, device Device, format Filesystem) error
	// FilesystemSize is the filesystem's size in bytes by its own superblock.
	FilesystemSize(ctx context.Context, device Device, fsType string) (int64, error)
	// Trim writes out what the filesystem has cached, and then has it discard the blocks that it does
	// not use. It is Unsupported where the device cannot discard.
	Trim(ctx context.Context, device Device, t TrimOptions) error
}

// TrimOptions say which part of a filesystem to trim.
type TrimOptions struct {
	FSType string
	// Path is where it is mounted; empty: it is not mounted, and is mounted meanwhile without being
	// attached to any path, so that nothing of that is left when this process is killed.
	Path string
	// From and Step are in bytes: it is trimmed from byte From on, Step bytes at a time.
	From, Step int64
	// Before is called before each step with its offset. Its error ends the trim, and is returned.
	Before func(ctx context.Context, offset int64) error
}

// Throttle puts a volume's I/O limits in force on its block device.
type Throttle interface {
	// Apply puts the limits in force on the device and reads them back; zero limits
	// remove them.
	Apply(ctx context.Context, device Device, limits fsm.Limits) error
}
