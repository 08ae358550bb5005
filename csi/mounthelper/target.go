package mounthelper

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// restoreTarget makes the mount point again, which the node removed as an orchestrator expects it. Its folder may be
// another user's, and this is root: no symbolic link is followed. A folder that is gone is no error.
func restoreTarget(record *Record) error {
	if record.Block || record.Mode == 0 {
		return nil
	}
	if err := makeFolder(record); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make the mount point %s again: %w", record.Target, err)
	}
	return nil
}

func makeFolder(record *Record) error {
	folder, name := filepath.Split(record.Target)
	parent, err := unix.Openat2(unix.AT_FDCWD, folder, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	if err := unix.Mkdirat(parent, name, 0o700); err != nil {
		return err
	}
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return errors.Join(unix.Fchown(fd, record.UID, record.GID), unix.Fchmod(fd, record.Mode))
}
