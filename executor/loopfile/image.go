package loopfile

import (
	"context"
	"fmt"
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
	found, err := p.loops.table.devicesOf(id, file, p.poolDir)
	if err != nil {
		return d, fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	if len(found) > 0 {
		found[0].describe(&d)
	}
	return d, nil
}

// Create creates the image: completely in tmp/, synced, then renamed; the directory is synced
// before Create returns. The image is a hole, so it reads as zero.
func (p *Pool) Create(_ context.Context, id fsm.VolumeID, size int64) error {
	return p.withImage(id, func(root *os.Root, _ *inode, d executor.Device) error {
		switch {
		case d.Exists && d.Size == size:
			return syncDir(root, volumesDir) // an earlier attempt may have crashed before the sync
		case d.Exists:
			return fsm.Reject(fsm.Incompatible, "the image of %s has %d bytes, not %d", id, d.Size, size)
		}
		if err := makeFile(root, image(tmpDir, id), size); err != nil {
			return fmt.Errorf("make the image of %s: %w", id, err)
		}
		if err := moveIntoPlace(root, volumesDir, string(id)+".img", unix.RENAME_NOREPLACE); err != nil {
			return fmt.Errorf("move the image of %s into %s: %w", id, volumesDir, err)
		}
		return nil
	})
}

// Remove unlinks the image and what an interrupted Create left. An image with a loop device is
// kept: the device would survive without a name.
func (p *Pool) Remove(_ context.Context, id fsm.VolumeID) error {
	return p.withImage(id, func(root *os.Root, file *inode, _ executor.Device) error {
		if err := p.checkInactive(id, file); err != nil {
			return err
		}
		return unlink(root, volumesDir, string(id), "image")
	})
}

// checkInactive returns an InUse rejection while the image has a loop device, of any program.
func (p *Pool) checkInactive(id fsm.VolumeID, file *inode) error {
	found, err := p.loops.table.scan(id, file, p.poolDir)
	if err != nil {
		return fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	if len(found) > 0 {
		return fsm.Reject(fsm.InUse, "the image of %s is attached to %s", id, found[0].path())
	}
	return nil
}

// withImage calls do with the state of a volume's image and its inode, nil without one.
func (p *Pool) withImage(id fsm.VolumeID, do func(root *os.Root, file *inode, d executor.Device) error) error {
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
	return do(root, file, d)
}

// Expand extends the file, and its loop device if it has one.
func (p *Pool) Expand(ctx context.Context, id fsm.VolumeID, size int64) error {
	current, err := p.Observe(ctx, id)
	switch {
	case err != nil:
		return err
	case !current.Exists:
		return fsm.Reject(fsm.Precondition, "there is no image of %s", id)
	}
	if current.Size < size {
		if err := p.resizeImage(id, size); err != nil {
			return fmt.Errorf("grow the image of %s: %w", id, err)
		}
	}
	if !current.Active() {
		return nil
	}
	if err := setCapacity(current.Path, max(size, current.Size)); err != nil {
		return fmt.Errorf("grow the device of %s: %w", id, err)
	}
	return nil
}

func checkID(id fsm.VolumeID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a volume's id", string(id))
	}
	return nil
}

// image is the path of a volume's file within the pool; only for valid ids.
func image(folder string, id fsm.VolumeID) string { return filePath(folder, string(id)) }

func filePath(folder, id string) string { return folder + "/" + id + ".img" }
