package loopfile

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// loopDevices are the loop devices over the pool's images.
type loopDevices struct {
	*poolDir
	table loopTable
}

// activate adopts the device over an image, or sets one up.
func (l *loopDevices) activate(root *os.Root, id fsm.VolumeID, file *inode, readOnly bool) (loop, error) {
	dev, found, err := l.adopt(id, file, readOnly)
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
	if dev, err = l.table.setUp(image, readOnly); err != nil {
		return loop{}, fmt.Errorf("attach the image of %s: %w", id, err)
	}
	l.table.store(id, []loop{dev})
	return dev, nil
}

// adopt takes over an existing device. A device that was set up read-only can never become
// writable, so it is replaced when writing is asked for.
func (l *loopDevices) adopt(id fsm.VolumeID, file *inode, readOnly bool) (loop, bool, error) {
	found, err := l.table.devicesOf(id, file, l.poolDir)
	if err != nil {
		return loop{}, false, fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	if found = dropDuplicates(found); len(found) > 1 {
		return loop{}, false, fsm.Reject(fsm.Precondition, "the image of %s is in use through %s and %s at once", id, found[0].path(), found[1].path())
	}
	l.table.store(id, found)
	switch {
	case len(found) == 0, plantedbug.Is(plantedbug.DuplicateLoopDevice):
		return loop{}, false, nil
	case found[0].file != *file || found[0].flags&flagReadOnly != 0 && !readOnly:
		return loop{}, false, l.deactivate(id, found)
	}
	adopted, err := clearAutoclear(found[0], readOnly)
	l.table.store(id, []loop{adopted})
	return adopted, true, err
}

// deactivate removes the devices that were found of a volume.
func (l *loopDevices) deactivate(id fsm.VolumeID, found []loop) error {
	for _, dev := range found {
		if err := detachLoop(dev); errors.Is(err, errInUse) {
			return fsm.Reject(fsm.Busy, "%s of %s is in use", dev.path(), id)
		} else if err != nil {
			return fmt.Errorf("detach the image of %s: %w", id, err)
		}
	}
	l.table.store(id, nil)
	return nil
}

// flush writes all data of the loop device to the image's file. The device has a page cache
// of its own above the file's.
func (l *loopDevices) flush(id fsm.VolumeID, file *os.File) error {
	found, err := l.table.devicesOf(id, nil, l.poolDir)
	if err != nil {
		return fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	for _, dev := range found {
		if err := syncDevice(dev); err != nil {
			return err
		}
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("sync the image of %s: %w", id, err)
	}
	return nil
}
