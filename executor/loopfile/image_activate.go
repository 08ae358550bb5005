package loopfile

import (
	"context"
	"fmt"

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
	dev, err := p.loops.activate(root, id, file, readOnly)
	if err != nil {
		return d, err
	}
	dev.describe(&d)
	return d, nil
}

// Deactivate removes the volume's loop device and every duplicate; Busy while one is in use.
func (p *Pool) Deactivate(_ context.Context, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	found, err := p.loops.table.devicesOf(id, nil, p.poolDir)
	if err != nil {
		return fmt.Errorf("look for the loop device of %s: %w", id, err)
	}
	return p.loops.deactivate(id, found)
}
