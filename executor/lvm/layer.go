package lvm

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// layers are the devices on top of the volumes: the block devices that the node uses.
type layers struct{ *thinPool }

// fill fills in the state of the volume's block device.
func (l *layers) fill(id fsm.VolumeID, d *executor.Device) error {
	layerDev, err := l.kernel.device(l.layerName(id))
	if err != nil || layerDev == nil {
		return err
	}
	d.Path, d.Number, d.ReadOnly = layerDev.path(), layerDev.number(), layerDev.readOnly
	d.StablePath = "/dev/mapper/" + l.layerName(id)
	return nil
}

// ensure creates, adopts, resizes or replaces the device on top, so that it has the volume's size,
// lies over this logical volume and not over one that had its name, and is read-only as asked.
func (l *layers) ensure(ctx context.Context, state *poolState, lv *logicalVolume, size int64, readOnly bool) error {
	id, uuid := fsm.VolumeID(lv.name), layerUUID(state.groupUUID, lv.uuid)
	if err := l.activateLV(ctx, lv.name); err != nil {
		return err
	}
	below, err := l.kernel.device(dmName(l.VG, lv.name))
	if err != nil {
		return err
	}
	if below == nil {
		return fmt.Errorf("attach volume %s: it is not active although LVM activated it", id)
	}
	table := linearTable(below, size)
	current, err := l.kernel.device(l.layerName(id))
	switch {
	case err != nil:
		return err
	case current == nil:
		return l.create(ctx, id, uuid, table, readOnly)
	case current.readOnly == readOnly && current.uuid == uuid:
		if err := l.tools.makeNode(ctx, l.layerName(id)); err != nil {
			return err
		}
		return l.resize(ctx, id, current, table, size)
	}
	if err := l.remove(ctx, id); err != nil {
		return err
	}
	return l.create(ctx, id, uuid, table, readOnly)
}

func (l *layers) create(ctx context.Context, id fsm.VolumeID, uuid, table string, readOnly bool) error {
	args := []string{l.layerName(id), "--uuid", uuid, "--table", table}
	if readOnly {
		args = append(args, "--readonly")
	}
	if err := l.tools.dmsetup(ctx, "create", args...); err != nil {
		return fmt.Errorf("attach volume %s: %w", id, err)
	}
	return l.tools.makeNode(ctx, l.layerName(id))
}

// linearTable is the device-mapper table of the device on top: the volume's first size bytes.
func linearTable(below *dmDevice, size int64) string {
	return fmt.Sprintf("0 %d linear %d:%d 0", size/sectorSize, below.major, below.minor)
}

// resize extends an existing device on top to the volume's size. The new table takes effect in one
// ioctl, so no crash leaves the device suspended.
func (l *layers) resize(ctx context.Context, id fsm.VolumeID, layerDev *dmDevice, table string, size int64) error {
	current, err := deviceBytes(layerDev)
	if err != nil || current == size {
		return err
	}
	args := []string{l.layerName(id), "--table", table}
	if layerDev.readOnly {
		args = append(args, "--readonly")
	}
	if err := l.tools.dmsetup(ctx, "load", args...); err != nil {
		return fmt.Errorf("grow the device of %s: %w", id, err)
	}
	if err := l.tools.dmsetup(ctx, "resume", "--nolockfs", l.layerName(id)); err != nil {
		return fmt.Errorf("grow the device of %s: %w", id, err)
	}
	if current, err = deviceBytes(layerDev); err == nil && current != size {
		err = fmt.Errorf("grow the device of %s: it has %d bytes, not %d", id, current, size)
	}
	return err
}

// grow extends the device on top, if there is one.
func (l *layers) grow(ctx context.Context, state *poolState, lv *logicalVolume, size int64) error {
	layerDev, err := l.kernel.device(l.layerName(fsm.VolumeID(lv.name)))
	if err != nil || layerDev == nil {
		return err
	}
	return l.ensure(ctx, state, lv, size, layerDev.readOnly)
}

// remove removes the device on top; Busy while it is open.
func (l *layers) remove(ctx context.Context, id fsm.VolumeID) error {
	layerDev, err := l.kernel.device(l.layerName(id))
	switch {
	case err != nil || layerDev == nil:
		return err
	case layerDev.open > 0:
		return fsm.Reject(fsm.Busy, "%s of volume %s is in use", layerDev.path(), id)
	}
	err = l.tools.dmsetup(ctx, "remove", l.layerName(id))
	switch {
	case errors.Is(err, errDMInUse):
		return fsm.Reject(fsm.Busy, "%s of volume %s is in use", layerDev.path(), id)
	case err != nil && !errors.Is(err, errNoMapping):
		return fmt.Errorf("detach volume %s: %w", id, err)
	}
	return nil
}

// checkNone returns an InUse rejection while the volume has its block device.
func (l *layers) checkNone(id fsm.VolumeID) error {
	layerDev, err := l.kernel.device(l.layerName(id))
	if err != nil {
		return err
	}
	if layerDev != nil {
		return fsm.Reject(fsm.InUse, "volume %s is attached to %s", id, layerDev.path())
	}
	return nil
}

// flush writes out what the block device still caches, for a snapshot that is being taken.
func (l *layers) flush(id fsm.VolumeID) error {
	layerDev, err := l.kernel.device(l.layerName(id))
	if err != nil || layerDev == nil {
		return err
	}
	f, err := os.OpenFile(layerDev.path(), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("flush volume %s: %w", id, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flush volume %s: %w", id, err)
	}
	return nil
}
