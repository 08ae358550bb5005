package loopfile

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Revert copies the snapshot completely into tmp/, and then renames it over the image.
func (p *Pool) Revert(ctx context.Context, id fsm.VolumeID, to fsm.SnapshotID) error {
	if _, err := p.inactiveImage(id); err != nil {
		return err
	}
	from, size, err := p.openSized(to)
	if err != nil {
		return err
	}
	defer from.Close()
	if size == 0 {
		return fsm.Reject(fsm.Precondition, "the file of %s is empty", to)
	}
	m := fileSpec{folder: volumesDir, name: string(id) + ".img", mode: 0o600, replaces: true}
	if err := p.copyFrom(ctx, from, m, nil); err != nil {
		return fmt.Errorf("revert the image of %s to %s: %w", id, to, err)
	}
	return nil
}

// Shrink truncates the file, which the filesystem does in one step.
func (p *Pool) Shrink(_ context.Context, id fsm.VolumeID, size int64) error {
	if size <= 0 {
		return fsm.Reject(fsm.Invalid, "the image of %s cannot have %d bytes", id, size)
	}
	current, err := p.inactiveImage(id)
	switch {
	case err != nil:
		return err
	case current.Size < size:
		return fsm.Reject(fsm.Incompatible, "the image of %s has %d bytes, fewer than %d", id, current.Size, size)
	}
	if err := p.resizeImage(id, size); err != nil {
		return fmt.Errorf("shrink the image of %s: %w", id, err)
	}
	return nil
}

// inactiveImage returns the state of an image that may be replaced or cut: it is there, and has no
// loop device.
func (p *Pool) inactiveImage(id fsm.VolumeID) (current executor.Device, err error) {
	err = p.withImage(id, func(_ *os.Root, file *inode, d executor.Device) error {
		if current = d; !d.Exists {
			return fsm.Reject(fsm.Precondition, "there is no image of %s", id)
		}
		return p.checkInactive(id, file)
	})
	return current, err
}
