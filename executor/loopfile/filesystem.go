package loopfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor/run"
)

// FilesystemImage is the name, in a pool's directory, of the image of a filesystem that is mounted
// over that directory: an xfs, which shares blocks, where the filesystem below does not.
const FilesystemImage = ".holdfast-pool.xfs"

// Runner runs host commands, as *run.Runner does.
type Runner interface {
	Run(ctx context.Context, c run.Command) ([]byte, error)
}

// Filesystem is a pool's own filesystem. Its image is allocated, not sparse: the space that the
// filesystem reports as free exists, so that no write through it fails for lack of space below. It
// grows (see Grow) while the filesystem below has space, and never shrinks.
type Filesystem struct {
	dir   string
	image *os.File
	loop  loop
}

// OpenFilesystem mounts the filesystem image of a pool's directory, or finds it mounted; nil when
// the directory has none. With make set, a directory that is to become a pool gets an image if it
// is empty and the filesystem that it lies on does not share blocks. A directory with any other
// content is never mounted over. The error is a *FilesystemError when the image could not be
// created.
func OpenFilesystem(ctx context.Context, dir string, runner Runner, make bool) (*Filesystem, error) {
	real, err := filepath.EvalSymlinks(dir)
	if errors.Is(err, fs.ErrNotExist) && make {
		if err = os.MkdirAll(dir, 0o700); err == nil {
			real, err = filepath.EvalSymlinks(dir)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open pool folder %s: %w", dir, err)
	}
	f := &Filesystem{dir: real}
	var notMade *FilesystemError
	switch err = f.open(ctx, runner, make); {
	case errors.As(err, &notMade):
		return nil, errors.Join(notMade, f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("give pool %s a filesystem of its own: %w", dir, err), f.Close())
	case f.image == nil:
		return nil, nil
	}
	return f, nil
}

// FilesystemError is why a new pool has no filesystem of its own: it copies instead of sharing
// blocks. Nothing is left of the attempt.
type FilesystemError struct{ Cause error }

func (e *FilesystemError) Error() string {
	return fmt.Sprintf("make a filesystem that shares blocks: %v", e.Cause)
}

// Unwrap returns the cause.
func (e *FilesystemError) Unwrap() error { return e.Cause }

// Close closes the image. The filesystem stays mounted.
func (f *Filesystem) Close() error {
	if f.image == nil {
		return nil
	}
	return f.image.Close()
}

func (f *Filesystem) open(ctx context.Context, runner Runner, make bool) error {
	mounted, err := f.mounted()
	if err != nil {
		return err
	}
	if mounted {
		return f.adopt()
	}
	path := filepath.Join(f.dir, FilesystemImage)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if !make {
			return nil
		}
		made, err := f.make(ctx, path, runner)
		switch {
		case err != nil:
			return &FilesystemError{err}
		case !made:
			return nil
		}
		if err := f.openAndMount(path); err != nil { // for instance, on a kernel without xfs
			return &FilesystemError{errors.Join(err, os.Remove(path))}
		}
		return nil
	}
	return f.openAndMount(path)
}

func (f *Filesystem) openAndMount(path string) (err error) {
	if f.image, err = openImage(unix.AT_FDCWD, path); err != nil {
		return err
	}
	return f.mount()
}

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
		return fmt.Errorf("have %s end with its mount: %w", l.path(), err)
	}
	return nil
}
