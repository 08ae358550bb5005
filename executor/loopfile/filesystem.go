package loopfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
	var filesystemErr *FilesystemError
	switch err = f.open(ctx, runner, make); {
	case errors.As(err, &filesystemErr):
		return nil, errors.Join(filesystemErr, f.Close())
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
