package loopfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// mounted reports whether the image is mounted over its directory.
func (f *Filesystem) mounted() (bool, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(f.dir))
	if err != nil {
		return false, fmt.Errorf("read what is mounted: %w", err)
	}
	const loopMajor = 7
	if len(mounts) == 0 || mounts[0].Major != loopMajor {
		return false, nil
	}
	number := mounts[0].Minor
	file, ok := backingFile(number)
	if !ok || !strings.HasSuffix(file, "/"+FilesystemImage) {
		return false, nil
	}
	f.loop, err = loopStatus(number)
	return err == nil, err
}

// adopt opens the image below its own mount: it is visible through a copy of the mount that
// contains the parent directory, without the mounts on top of it.
func (f *Filesystem) adopt() error {
	tree, err := unix.OpenTree(unix.AT_FDCWD, filepath.Dir(f.dir), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("look below what is mounted at %s: %w", f.dir, err)
	}
	defer closeFD(tree)
	if f.image, err = openImage(tree, filepath.Join(filepath.Base(f.dir), FilesystemImage)); err != nil {
		return err
	}
	return f.checkLoopBacking()
}

func openImage(at int, path string) (*os.File, error) {
	fd, err := unix.Openat(at, path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// checkLoopBacking refuses a loop device with another backing file than the image.
func (f *Filesystem) checkLoopBacking() error {
	info, err := f.image.Stat()
	if err != nil {
		return err
	}
	if inodeOf(info) != f.loop.file {
		return fmt.Errorf("%s is mounted there and is not on %s", f.loop.path(), f.image.Name())
	}
	return nil
}

// mount mounts the image over its directory, through its loop device of an earlier process or a
// new one; the device is removed by the unmount.
func (f *Filesystem) mount() (err error) {
	if f.loop, err = f.device(); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME
	if err := unix.Mount(f.loop.path(), f.dir, "xfs", flags, ""); err != nil {
		return errors.Join(fmt.Errorf("mount %s at %s: %w", f.image.Name(), f.dir, err), detachLoop(f.loop))
	}
	if err := clearWhenUnused(f.loop); err != nil {
		return errors.Join(err, unix.Unmount(f.dir, 0), detachLoop(f.loop))
	}
	return nil
}

func (f *Filesystem) device() (loop, error) {
	info, err := f.image.Stat()
	if err != nil {
		return loop{}, err
	}
	all, err := listBound()
	if err != nil {
		return loop{}, err
	}
	for _, b := range all {
		if !strings.HasSuffix(b.file, "/"+FilesystemImage) {
			continue
		}
		if current, err := loopStatus(b.number); err == nil && current.file == inodeOf(info) {
			return current, nil
		}
	}
	return (&loopTable{}).setUp(f.image, false)
}

// clearWhenUnused makes the kernel remove the loop device when it is unmounted.
func clearWhenUnused(l loop) error {
	fd, err := openLoop(l.number, unix.O_RDONLY)
	if err != nil {
		return fmt.Errorf("open %s: %w", l.path(), err)
	}
	defer closeFD(fd)
	info, err := unix.IoctlLoopGetStatus64(fd)
	if err == nil && info.Flags&flagAutoclear == 0 {
		info.Flags |= flagAutoclear
		err = unix.IoctlLoopSetStatus64(fd, info)
	}
	if err != nil {
		return fmt.Errorf("set %s to be removed with its mount: %w", l.path(), err)
	}
	return nil
}
