package loopfile

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Activate sets up a loop device over the image, or adopts the existing one; afterwards there is
// exactly one.
func (p *Pool) Activate(_ context.Context, id fsm.VolumeID, readOnly bool) (executor.Device, error) {
	var d executor.Device
	if err := checkID(id); err != nil {
		return d, err
	}
	root, err := p.open()
	if err != nil {
		return d, err
	}
	defer closeRoot(root)
	file, err := fillImage(root, id, &d)
	if err != nil {
		return d, err
	}
	if !d.Exists {
		return d, fsm.Reject(fsm.Precondition, "there is no image of %s", id)
	}
	dev, err := p.activateImage(root, id, file, readOnly)
	if err != nil {
		return d, err
	}
	dev.describe(&d)
	return d, nil
}

func (p *Pool) activateImage(root *os.Root, id fsm.VolumeID, file *inode, readOnly bool) (loop, error) {
	dev, found, err := p.adopt(id, file, readOnly)
	if err != nil || found {
		return dev, err
	}
	mode := os.O_RDWR
	if readOnly {
		mode = os.O_RDONLY
	}
	image, err := root.OpenFile(image(volumesDir, id), mode|unix.O_NOFOLLOW, 0)
	if err != nil {
		return loop{}, fmt.Errorf("open the image of %s: %w", id, err)
	}
	defer image.Close()
	if dev, err = p.loops.setUp(image, readOnly); err != nil {
		return loop{}, fmt.Errorf("attach the image of %s: %w", id, err)
	}
	p.loops.store(id, []loop{dev})
	return dev, nil
}

// adopt takes over an existing device. A device that was set up read-only can never become
// writable, so it is replaced when writing is asked for.
func (p *Pool) adopt(id fsm.VolumeID, file *inode, readOnly bool) (loop, bool, error) {
	found, err := p.loops.devicesOf(id, file, p.dir)
	if err != nil {
		return loop{}, false, fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	if found = dropDuplicates(found); len(found) > 1 {
		return loop{}, false, fsm.Reject(fsm.Precondition, "the image of %s is in use through %s and %s at once", id, found[0].path(), found[1].path())
	}
	p.loops.store(id, found)
	switch {
	case len(found) == 0:
		return loop{}, false, nil
	case found[0].file != *file || found[0].flags&flagReadOnly != 0 && !readOnly:
		return loop{}, false, p.deactivateAll(id, found)
	}
	adopted, err := clearAutoclear(found[0], readOnly)
	p.loops.store(id, []loop{adopted})
	return adopted, true, err
}

// Deactivate removes the volume's loop device and every duplicate; Busy while one is in use.
func (p *Pool) Deactivate(_ context.Context, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	found, err := p.loops.devicesOf(id, nil, p.dir)
	if err != nil {
		return fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	return p.deactivateAll(id, found)
}

func (p *Pool) deactivateAll(id fsm.VolumeID, found []loop) error {
	for _, dev := range found {
		if err := detachLoop(dev); errors.Is(err, errInUse) {
			return fsm.Reject(fsm.Busy, "%s of %s is in use", dev.path(), id)
		} else if err != nil {
			return fmt.Errorf("detach the image of %s: %w", id, err)
		}
	}
	p.loops.store(id, nil)
	return nil
}

// inUse reports whether the device is held exclusively, as by a mount.
func inUse(l loop) bool {
	fd, err := openLoop(l.number, unix.O_RDONLY|unix.O_EXCL)
	if err != nil {
		return errors.Is(err, unix.EBUSY)
	}
	closeFD(fd)
	return false
}
