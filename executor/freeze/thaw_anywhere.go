package freeze

import (
	"errors"
	"fmt"
	"os"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// thawAnywhere thaws a filesystem through any mount of it: at the path where it was mounted, at
// another path, or, when it is not mounted, through a detached mount. A frozen filesystem outlives
// its last mount.
func thawAnywhere(p fsLocation) error {
	mounts, err := mountinfo.GetMounts(func(i *mountinfo.Info) (skip, stop bool) {
		return unix.Mkdev(uint32(i.Major), uint32(i.Minor)) != p.Device, false
	})
	if err != nil {
		return fmt.Errorf("read the kernel's table of mounts: %w", err)
	}
	for _, m := range mounts {
		if done, err := thawAt(m.Mountpoint, p.Device); done {
			return err
		}
	}
	return thawUnmounted(p)
}

// thawAt thaws through a path, if the filesystem is mounted there.
func thawAt(path string, device uint64) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false, nil //nolint:nilerr // covered, or of another mount namespace: the next may do
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Dev != device {
		return false, nil //nolint:nilerr // as above
	}
	return true, thawNow(f)
}

// thawUnmounted thaws a filesystem that is not mounted but still in the kernel: mounting its
// device again returns the frozen one.
func thawUnmounted(p fsLocation) error {
	if p.DevPath == "" || p.DiskSeq != 0 && diskSeq(p.DevPath) != p.DiskSeq {
		return nil // the disk is removed, and with it the frozen filesystem
	}
	if used, err := inUse(p); err != nil || !used {
		return err
	}
	var errs []error
	for _, readOnly := range []bool{false, true} {
		root, err := detachedMount(p, readOnly)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		return errors.Join(thawNow(root), root.Close())
	}
	return errors.Join(errs...)
}

// inUse reports whether a filesystem or a process holds the device exclusively.
func inUse(p fsLocation) (bool, error) {
	fd, err := unix.Open(p.DevPath, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return true, nil
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("open %s: %w", p.DevPath, err)
	}
	return false, unix.Close(fd)
}

// detachedMount mounts the filesystem without attaching it to a path.
func detachedMount(p fsLocation, readOnly bool) (*os.File, error) {
	fs, err := unix.Fsopen(p.FSType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("mount %s to thaw it: %w", p.DevPath, err)
	}
	defer closeFD(fs)
	err = unix.FsconfigSetString(fs, "source", p.DevPath)
	if err == nil && readOnly {
		err = unix.FsconfigSetFlag(fs, "ro")
	}
	if err == nil {
		err = unix.FsconfigCreate(fs)
	}
	if err != nil {
		return nil, fmt.Errorf("mount %s to thaw it: %w", p.DevPath, err)
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOATIME)
	if err != nil {
		return nil, fmt.Errorf("mount %s to thaw it: %w", p.DevPath, err)
	}
	defer closeFD(tree)
	root, err := unix.Openat(tree, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("mount %s to thaw it: %w", p.DevPath, err)
	}
	return os.NewFile(uintptr(root), p.DevPath), nil
}

// closeFD closes a descriptor that nothing was written through.
func closeFD(fd int) { _ = unix.Close(fd) }
