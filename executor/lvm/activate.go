package lvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// fillLayer fills in the state of the volume's block device.
func (p *Pool) fillLayer(id fsm.VolumeID, d *executor.Device) error {
	layerDev, err := p.kernel.device(p.layerName(id))
	if err != nil || layerDev == nil {
		return err
	}
	d.Path, d.Number, d.ReadOnly = layerDev.path(), layerDev.number(), layerDev.readOnly
	d.StablePath = "/dev/mapper/" + p.layerName(id)
	return nil
}

// Activate creates the volume's block device, a linear device on top of the logical volume, or
// adopts the existing one.
func (p *Pool) Activate(ctx context.Context, id fsm.VolumeID, readOnly bool) (executor.Device, error) {
	var d executor.Device
	if err := checkID(id); err != nil {
		return d, err
	}
	done, v, err := p.lockRecent(ctx)
	if err != nil {
		return d, err
	}
	defer done()
	lv, size, err := v.findReady(string(id))
	if err != nil {
		return d, err
	}
	if lv == nil {
		return d, fsm.Reject(fsm.Precondition, "there is no volume %s in pool %s", id, p.name())
	}
	if err := p.ensureLayer(ctx, v, lv, size, readOnly); err != nil {
		return d, err
	}
	d.Exists, d.Size = true, size
	if err := p.fillLayer(id, &d); err != nil {
		return d, err
	}
	if !d.Active() || d.ReadOnly != readOnly {
		return d, fmt.Errorf("attach volume %s: the kernel does not show its device as asked", id)
	}
	return d, nil
}

// ensureLayer makes sure that the device on top exists, with the volume's size, over this very
// logical volume, and read-only or not as asked.
func (p *Pool) ensureLayer(ctx context.Context, v *poolState, lv *logicalVolume, size int64, readOnly bool) error {
	id := fsm.VolumeID(lv.name)
	if err := p.activateLV(ctx, lv.name); err != nil {
		return err
	}
	below, err := p.kernel.device(dmName(p.VG, lv.name))
	if err != nil {
		return err
	}
	if below == nil {
		return fmt.Errorf("attach volume %s: it is not active although LVM activated it", id)
	}
	table := linearTable(below, size)
	layerDev, err := p.kernel.device(p.layerName(id))
	if err != nil {
		return err
	}
	if layerDev != nil {
		if layerDev.readOnly == readOnly && layerDev.uuid == layerUUID(v.groupUUID, lv.uuid) {
			if err := p.tools.makeNode(ctx, p.layerName(id)); err != nil {
				return err
			}
			return p.resizeLayer(ctx, id, layerDev, table, size)
		}
		if err := p.removeLayer(ctx, id); err != nil {
			return err
		}
	}
	args := []string{p.layerName(id), "--uuid", layerUUID(v.groupUUID, lv.uuid), "--table", table}
	if readOnly {
		args = append(args, "--readonly")
	}
	if err := p.tools.dmsetup(ctx, "create", args...); err != nil {
		return fmt.Errorf("attach volume %s: %w", id, err)
	}
	return p.tools.makeNode(ctx, p.layerName(id))
}

// linearTable is the device-mapper table of the device on top: the volume's first size bytes.
func linearTable(below *dmDevice, size int64) string {
	return fmt.Sprintf("0 %d linear %d:%d 0", size/sectorSize, below.major, below.minor)
}

// resizeLayer extends an existing device on top to the volume's size. The new table takes effect
// in one ioctl, so no crash leaves the device suspended.
func (p *Pool) resizeLayer(ctx context.Context, id fsm.VolumeID, layerDev *dmDevice, table string, size int64) error {
	current, err := deviceBytes(layerDev)
	if err != nil || current == size {
		return err
	}
	args := []string{p.layerName(id), "--table", table}
	if layerDev.readOnly {
		args = append(args, "--readonly")
	}
	if err := p.tools.dmsetup(ctx, "load", args...); err != nil {
		return fmt.Errorf("grow the device of %s: %w", id, err)
	}
	if err := p.tools.dmsetup(ctx, "resume", "--nolockfs", p.layerName(id)); err != nil {
		return fmt.Errorf("grow the device of %s: %w", id, err)
	}
	if current, err = deviceBytes(layerDev); err == nil && current != size {
		err = fmt.Errorf("grow the device of %s: it has %d bytes, not %d", id, current, size)
	}
	return err
}

// deviceBytes returns the device's size in bytes, as the kernel reports it.
func deviceBytes(d *dmDevice) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/size", d.major, d.minor))
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", d.path(), err)
	}
	n := numberParser{}
	sectors := n.parse(strings.TrimSpace(string(text)))
	return sectors * sectorSize, n.err
}

// Deactivate removes the volume's block device, also while the pool is absent.
func (p *Pool) Deactivate(ctx context.Context, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	layerDev, err := p.kernel.device(p.layerName(id))
	if err != nil || layerDev == nil {
		return err
	}
	if err := p.removeLayer(ctx, id); err != nil {
		return err
	}
	done, v, err := p.lockRecent(ctx)
	if isAbsent(err) {
		return nil // the logical volume below is in use by no device on top
	}
	if err != nil {
		return err
	}
	defer done()
	return p.deactivateLV(ctx, v, string(id))
}

// removeLayer removes the device on top; Busy while it is open.
func (p *Pool) removeLayer(ctx context.Context, id fsm.VolumeID) error {
	layerDev, err := p.kernel.device(p.layerName(id))
	switch {
	case err != nil || layerDev == nil:
		return err
	case layerDev.open > 0:
		return fsm.Reject(fsm.Busy, "%s of volume %s is in use", layerDev.path(), id)
	}
	err = p.tools.dmsetup(ctx, "remove", p.layerName(id))
	switch {
	case errors.Is(err, errDMInUse):
		return fsm.Reject(fsm.Busy, "%s of volume %s is in use", layerDev.path(), id)
	case err != nil && !errors.Is(err, errNoMapping):
		return fmt.Errorf("detach volume %s: %w", id, err)
	}
	return nil
}

// deactivateLV removes the kernel's device of one of our logical volumes; a device that is still
// in use stays.
func (p *Pool) deactivateLV(ctx context.Context, v *poolState, name string) error {
	lv, err := v.findOurs(name)
	if err != nil || lv == nil {
		return err
	}
	current, err := p.kernel.device(dmName(p.VG, name))
	if err != nil || current == nil || current.open > 0 {
		return err
	}
	err = p.tools.runChange(ctx, changeTimeout, "lvchange", "-an", p.VG+"/"+name)
	if err != nil && !errors.Is(err, errInUse) {
		return fmt.Errorf("deactivate %s in pool %s: %w", name, p.name(), err)
	}
	return nil
}

// flush writes out what the block device still caches, for a snapshot that is being taken.
func (p *Pool) flush(id fsm.VolumeID) error {
	layerDev, err := p.kernel.device(p.layerName(id))
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
