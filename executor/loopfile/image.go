package loopfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Observe returns the state of the image and its loop device. With the pool absent it still
// reports the loop device, so that teardown works.
func (p *Pool) Observe(_ context.Context, id fsm.VolumeID) (executor.Device, error) {
	if err := checkID(id); err != nil {
		return executor.Device{}, err
	}
	var d executor.Device
	var file *inode
	root, err := p.open()
	if err == nil {
		defer closeRoot(root)
		if file, err = fillImage(root, id, &d); err != nil {
			return d, err
		}
	}
	d.Absent = err != nil
	found, err := p.loops.devicesOf(id, file, p.dir)
	if err != nil {
		return d, fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	if len(found) > 0 {
		found[0].describe(&d)
	}
	return d, nil
}

// fillImage fills in the image's state and returns its inode, nil without an image.
func fillImage(root *os.Root, id fsm.VolumeID, d *executor.Device) (*inode, error) {
	if _, err := root.Lstat(image(tmpDir, id)); err == nil {
		d.Unfinished = true
	}
	info, err := root.Lstat(image(volumesDir, id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look at the image of %s: %w", id, err)
	case !info.Mode().IsRegular():
		return nil, fsm.Reject(fsm.Precondition, "the image of %s is not a regular file", id)
	}
	d.Exists, d.Size = true, info.Size()
	file := inodeOf(info)
	return &file, nil
}

// Create creates the image: completely in tmp/, synced, then renamed; the directory is synced
// before Create returns. The image is a hole, so it reads as zero.
func (p *Pool) Create(_ context.Context, id fsm.VolumeID, size int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	root, err := p.open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	var d executor.Device
	if _, err := fillImage(root, id, &d); err != nil {
		return err
	}
	switch {
	case d.Exists && d.Size == size:
		return syncDir(root, volumesDir) // an earlier attempt may have crashed before the sync
	case d.Exists:
		return fsm.Reject(fsm.Incompatible, "the image of %s has %d bytes, not %d", id, d.Size, size)
	}
	if err := makeFile(root, image(tmpDir, id), size); err != nil {
		return fmt.Errorf("make the image of %s: %w", id, err)
	}
	if err := moveIntoPlace(root, volumesDir, string(id)+".img"); err != nil {
		return fmt.Errorf("move the image of %s into %s: %w", id, volumesDir, err)
	}
	return nil
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

// moveIntoPlace moves the finished file out of tmp/. It never replaces an existing one.
func moveIntoPlace(root *os.Root, folder, name string) error {
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
	if err := unix.Renameat2(int(from.Fd()), name, int(to.Fd()), name, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	return errors.Join(to.Sync(), from.Sync())
}

// Remove unlinks the image and what an interrupted Create left. An image with a loop device is
// kept: the device would survive without a name.
func (p *Pool) Remove(_ context.Context, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	root, err := p.open()
	if err != nil {
		return err
	}
	defer closeRoot(root)
	var d executor.Device
	file, err := fillImage(root, id, &d)
	if err != nil {
		return err
	}
	found, err := p.loops.scan(id, file, p.dir)
	if err != nil {
		return fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	if len(found) > 0 {
		return fsm.Reject(fsm.InUse, "the image of %s is attached to %s", id, found[0].path())
	}
	return unlink(root, id)
}

func unlink(root *os.Root, id fsm.VolumeID) error {
	for _, dir := range []string{tmpDir, volumesDir} {
		if err := root.Remove(image(dir, id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the image of %s: %w", id, err)
		}
	}
	if err := syncDir(root, volumesDir); err != nil {
		return fmt.Errorf("remove the image of %s: %w", id, err)
	}
	return nil
}
