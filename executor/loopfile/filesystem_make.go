package loopfile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor/run"
)

const (
	// initialSize is the initial size of a pool's own filesystem, and minSize the smallest with
	// which one is created: half of the free space, if that is less.
	initialSize = 4 << 30
	minSize     = 512 << 20
	// reserveBelow is the space left to the filesystem below for other uses.
	reserveBelow = 1 << 30
	// groupSize is the size of xfs's allocation groups, of which a grown filesystem has many. A
	// group cannot be larger than the initial filesystem.
	groupSize = 2 << 30

	mkfsTimeout = 5 * time.Minute

	// unfinishedImage is the image until it is complete.
	unfinishedImage = FilesystemImage + ".new"
)

// make creates the image, if the directory may have one. It gets its name when it is complete.
func (f *Filesystem) make(ctx context.Context, path string, runner Runner) (bool, error) {
	size, err := f.plannedSize()
	if err != nil || size == 0 {
		return false, err
	}
	unfinished := filepath.Join(f.dir, unfinishedImage)
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if err := allocate(unfinished, size); err != nil {
		return false, errors.Join(err, os.Remove(unfinished))
	}
	args := []string{"-q", "-K", "-m", "reflink=1", "-d", fmt.Sprintf("agsize=%d", min(groupSize, size/2)), unfinished}
	if _, err := runner.Run(ctx, run.Command{Tool: "mkfs.xfs", Args: args, Timeout: mkfsTimeout}); err != nil {
		return false, errors.Join(err, os.Remove(unfinished))
	}
	return true, renameFinished(unfinished, path)
}

// plannedSize is the size of the directory's filesystem in bytes; 0: it needs none, or there is no
// space, or it could not be found again below its mount, as when the directory is itself a mount
// point.
func (f *Filesystem) plannedSize() (int64, error) {
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return 0, err
	}
	defer closeRoot(root)
	if err := root.Remove(unfinishedImage); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	if mounted, err := mountinfo.Mounted(f.dir); err != nil || mounted || checkEmpty(root) != nil {
		return 0, err
	}
	if shares, err := testReflink(root, tryName); err != nil || shares {
		return 0, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(f.dir, &st); err != nil || st.Type == unix.TMPFS_MAGIC { // no pool lies in memory
		return 0, err
	}
	free, err := f.spaceBelow()
	if size := min(initialSize, free/2); err == nil && size >= minSize {
		return size - size%(1<<20), nil
	}
	return 0, err
}

// allocate creates a file with all of its blocks allocated.
func allocate(path string, size int64) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err = unix.Fallocate(int(file.Fd()), 0, 0, size); err != nil {
		err = fmt.Errorf("allocate %d bytes for %s: %w", size, path, err)
	}
	return errors.Join(err, file.Close())
}

func renameFinished(unfinished, path string) error {
	file, err := os.Open(unfinished)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// spaceBelow is how many more bytes the image may take of the filesystem that it lies on.
func (f *Filesystem) spaceBelow() (int64, error) {
	var st unix.Statfs_t
	var err error
	if f.image != nil {
		err = unix.Fstatfs(int(f.image.Fd()), &st)
	} else {
		err = unix.Statfs(f.dir, &st)
	}
	if err != nil {
		return 0, fmt.Errorf("measure what %s lies on: %w", f.dir, err)
	}
	return max(0, int64(st.Bavail)*st.Bsize-reserveBelow), nil
}
