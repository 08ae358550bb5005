package loopfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// fillImage fills in the image's state and returns its inode, nil without an image.
func fillImage(root *os.Root, id fsm.VolumeID, d *executor.Device) (*inode, error) {
	info, err := fillFile(root, volumesDir, string(id), "image", d)
	if err != nil || info == nil {
		return nil, err
	}
	file := inodeOf(info)
	return &file, nil
}

// fillFile fills in the state of an image or of a snapshot's file, and returns what the filesystem
// reports of it, nil without one.
func fillFile(root *os.Root, folder, id, kind string, d *executor.Device) (fs.FileInfo, error) {
	if _, err := root.Lstat(filePath(tmpDir, id)); err == nil {
		d.Unfinished = true
	}
	info, err := root.Lstat(filePath(folder, id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("inspect the %s of %s: %w", kind, id, err)
	case !info.Mode().IsRegular():
		return nil, fsm.Reject(fsm.Precondition, "the %s of %s is not a regular file", kind, id)
	}
	d.Exists, d.Size = true, info.Size()
	return info, nil
}

func makeFile(root *os.Root, name string, size int64) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, root.Remove(name))
	}
	return nil
}

// moveIntoPlace moves the finished file out of tmp/. With the flag RENAME_NOREPLACE it never replaces
// an existing one; without flags it does in one step.
func moveIntoPlace(root *os.Root, folder, name string, flags uint) error {
	from, err := root.Open(tmpDir)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := root.Open(folder)
	if err != nil {
		return err
	}
	defer to.Close()
	if err := unix.Renameat2(int(from.Fd()), name, int(to.Fd()), name, flags); err != nil {
		return err
	}
	return errors.Join(to.Sync(), from.Sync())
}

// unlink removes a file, and what an interrupted attempt to make it left.
func unlink(root *os.Root, folder, id, kind string) error {
	for _, dir := range []string{tmpDir, folder} {
		if err := root.Remove(filePath(dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the %s of %s: %w", kind, id, err)
		}
	}
	if err := syncDir(root, folder); err != nil {
		return fmt.Errorf("remove the %s of %s: %w", kind, id, err)
	}
	return nil
}

func (p *poolDir) resizeImage(id fsm.VolumeID, size int64) error {
	root, err := p.open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	f, err := root.OpenFile(image(volumesDir, id), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}
