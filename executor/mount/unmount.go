package mount

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maxStackedMounts bounds how many mounts of one device are unmounted from one path; more than one
// come from another program.
const maxStackedMounts = 16

// Unmount unmounts the device's mounts at the path, and none of any other device. It is never
// lazy: a mount that is in use stays, and is Busy.
func (m *Mounter) Unmount(_ context.Context, device executor.Device, path string) error {
	p, err := m.resolveRoot(path)
	if err != nil {
		return err
	}
	for range maxStackedMounts {
		lines, err := readTable()
		if err != nil {
			return err
		}
		if !lines.isMountedAt(device, p.real()) {
			return nil
		}
		if top, _ := lines.top(p.real()); !isMountOf(top, device) {
			return fsm.Reject(fsm.Busy, "something else is mounted over the volume on %s", p)
		}
		if err := p.unmountTop(); err != nil {
			return err
		}
	}
	return fmt.Errorf("unmount %s: it is mounted again and again", p)
}

func isMountOf(l mountEntry, device executor.Device) bool {
	_, ours := l.mountOf(device)
	return ours
}

func (t mountTable) isMountedAt(device executor.Device, path string) bool {
	for _, l := range t {
		if l.Mountpoint == path && isMountOf(l, device) {
			return true
		}
	}
	return false
}

const (
	// unmountTries and unmountRetryDelay bound how long a temporarily busy mount is retried.
	unmountTries      = 10
	unmountRetryDelay = 10 * time.Millisecond
)

// unmount retries a mount that is busy for a short time. A child that this process forks holds all
// of its open files until it executes its program: a second attempt is made while no fork is in
// progress.
func unmount(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
	for range unmountTries {
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
		syscall.ForkLock.RLock()
		err = unix.Unmount(path, unix.UMOUNT_NOFOLLOW)
		syscall.ForkLock.RUnlock()
		if errors.Is(err, unix.EBUSY) {
			time.Sleep(unmountRetryDelay)
		}
	}
	return err
}

// unmountTop unmounts by a path through the opened parent directory: an open descriptor of the
// mount itself would keep it busy.
func (p rootedPath) unmountTop() error {
	parent, base, err := p.parent()
	if err != nil {
		return p.pathRejection(err)
	}
	defer closeFD(parent)
	err = unmount(fmt.Sprintf("/proc/self/fd/%d/%s", parent, base))
	switch {
	case errors.Is(err, unix.EBUSY):
		return fsm.Reject(fsm.Busy, "the mount on %s is in use", p)
	case err != nil:
		return fmt.Errorf("unmount %s: %w", p, err)
	}
	return nil
}

// RemoveTarget removes what Bind created: only an empty directory or an empty file that is not a
// mount and lies on its parent's own filesystem (S123).
func (m *Mounter) RemoveTarget(_ context.Context, path string) error {
	p, err := m.resolveRoot(path)
	if err != nil {
		return err
	}
	parent, base, err := p.parent()
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return p.pathRejection(err)
	}
	defer closeFD(parent)
	flags, err := p.unlinkFlags(parent, base)
	if err == nil {
		err = unix.Unlinkat(parent, base, flags)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EBUSY):
		return fsm.Reject(fsm.Busy, "the path %s is a mount in another namespace", p)
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return fsm.Reject(fsm.Precondition, "the folder %s is not empty, so it is not removed", p)
	}
	return err
}

// unlinkFlags returns the flags for unlinkat of the path.
func (p rootedPath) unlinkFlags(parent int, base string) (int, error) {
	var dir, st unix.Stat_t
	if err := unix.Fstat(parent, &dir); err != nil {
		return 0, fmt.Errorf("look at the folder of %s: %w", p, err)
	}
	if err := unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return 0, err
	}
	kind := st.Mode & unix.S_IFMT
	switch {
	case st.Dev != dir.Dev:
		return 0, fsm.Reject(fsm.Precondition, "something else is mounted on %s, so it is not removed", p)
	case kind == unix.S_IFDIR:
		return unix.AT_REMOVEDIR, nil
	case kind == unix.S_IFREG && st.Size == 0:
		return 0, nil
	}
	return 0, fsm.Reject(fsm.Precondition, "the path %s is neither an empty folder nor an empty file, so it is not removed", p)
}
