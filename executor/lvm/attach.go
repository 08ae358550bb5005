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

// describeLayer fills in the volume's block device.
func (p *Pool) describeLayer(id fsm.VolumeID, d *executor.Device) error {
	on, err := p.kernel.device(p.layerName(id))
	if err != nil || on == nil {
		return err
	}
	d.Path, d.Number, d.ReadOnly = on.path(), on.number(), on.readOnly
	d.StablePath = "/dev/mapper/" + p.layerName(id)
	return nil
}

// Activate puts the block device on top of the volume, or adopts the one that is there.
func (p *Pool) Activate(ctx context.Context, id fsm.VolumeID, readOnly bool) (executor.Device, error) {
	var d executor.Device
	if err := checkID(id); err != nil {
		return d, err
	}
	done, v, err := p.enter(ctx)
	if err != nil {
		return d, err
	}
	defer done()
	lv, size, err := v.ready(string(id))
	if err != nil {
		return d, err
	}
	if lv == nil {
		return d, fsm.Reject(fsm.Precondition, "there is no volume %s in pool %s", id, p.name())
	}
	if err := p.putLayer(ctx, v, lv, size, readOnly); err != nil {
		return d, err
	}
	d.Exists, d.Size = true, size
	if err := p.describeLayer(id, &d); err != nil {
		return d, err
	}
	if !d.Active() || d.ReadOnly != readOnly {
		return d, fmt.Errorf("attach volume %s: the kernel does not show its device as asked", id)
	}
	return d, nil
}

// putLayer makes the device on top be there, of the volume's size, over this very
// volume, and as read-only as asked.
func (p *Pool) putLayer(ctx context.Context, v *view, lv *volume, size int64, readOnly bool) error {
	id := fsm.VolumeID(lv.name)
	if err := p.activate(ctx, lv.name); err != nil {
		return err
	}
	below, err := p.kernel.device(mapped(p.VG, lv.name))
	if err != nil {
		return err
	}
	if below == nil {
		return fmt.Errorf("attach volume %s: it is not active although LVM activated it", id)
	}
	table := tableOf(below, size)
	on, err := p.kernel.device(p.layerName(id))
	if err != nil {
		return err
	}
	if on != nil {
		if on.readOnly == readOnly && on.uuid == layerUUID(v.group, lv.uuid) {
			if err := p.tools.makeNode(ctx, p.layerName(id)); err != nil {
				return err
			}
			return p.fitLayer(ctx, id, on, table, size)
		}
		if err := p.takeLayer(ctx, id); err != nil {
			return err
		}
	}
	args := []string{p.layerName(id), "--uuid", layerUUID(v.group, lv.uuid), "--table", table}
	if readOnly {
		args = append(args, "--readonly")
	}
	if err := p.tools.dmsetup(ctx, "create", args...); err != nil {
		return fmt.Errorf("attach volume %s: %w", id, err)
	}
	return p.tools.makeNode(ctx, p.layerName(id))
}

// tableOf is the table of the device on top: the volume's first bytes.
func tableOf(below *device, size int64) string {
	return fmt.Sprintf("0 %d linear %d:%d 0", size/sectorSize, below.major, below.minor)
}

// fitLayer makes a device on top that is there as long as the volume. Its new table
// takes effect in one step: no crash leaves it suspended.
func (p *Pool) fitLayer(ctx context.Context, id fsm.VolumeID, on *device, table string, size int64) error {
	have, err := length(on)
	if err != nil || have == size {
		return err
	}
	args := []string{p.layerName(id), "--table", table}
	if on.readOnly {
		args = append(args, "--readonly")
	}
	if err := p.tools.dmsetup(ctx, "load", args...); err != nil {
		return fmt.Errorf("grow the device of %s: %w", id, err)
	}
	if err := p.tools.dmsetup(ctx, "resume", "--nolockfs", p.layerName(id)); err != nil {
		return fmt.Errorf("grow the device of %s: %w", id, err)
	}
	if have, err = length(on); err == nil && have != size {
		err = fmt.Errorf("grow the device of %s: it has %d bytes, not %d", id, have, size)
	}
	return err
}

// length is how many bytes the device has, as the kernel says.
func length(d *device) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/size", d.major, d.minor))
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", d.path(), err)
	}
	n := numbers{}
	sectors := n.read(strings.TrimSpace(string(text)))
	return sectors * sectorSize, n.err
}

// Deactivate ends the volume's block device, also while the pool is absent.
func (p *Pool) Deactivate(ctx context.Context, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	on, err := p.kernel.device(p.layerName(id))
	if err != nil || on == nil {
		return err
	}
	if err := p.takeLayer(ctx, id); err != nil {
		return err
	}
	done, v, err := p.enter(ctx)
	if isAbsent(err) {
		return nil // what is below is attached to nothing
	}
	if err != nil {
		return err
	}
	defer done()
	return p.deactivate(ctx, v, string(id))
}

// takeLayer removes the device on top; Busy while somebody has it open.
func (p *Pool) takeLayer(ctx context.Context, id fsm.VolumeID) error {
	on, err := p.kernel.device(p.layerName(id))
	switch {
	case err != nil || on == nil:
		return err
	case on.open > 0:
		return fsm.Reject(fsm.Busy, "%s of volume %s is in use", on.path(), id)
	}
	err = p.tools.dmsetup(ctx, "remove", p.layerName(id))
	switch {
	case errors.Is(err, errDMInUse):
		return fsm.Reject(fsm.Busy, "%s of volume %s is in use", on.path(), id)
	case err != nil && !errors.Is(err, errNoMapping):
		return fmt.Errorf("detach volume %s: %w", id, err)
	}
	return nil
}

// deactivate gives the kernel's device of a volume of ours back; what still uses it keeps it.
func (p *Pool) deactivate(ctx context.Context, v *view, name string) error {
	lv, err := v.find(name)
	if err != nil || lv == nil {
		return err
	}
	have, err := p.kernel.device(mapped(p.VG, name))
	if err != nil || have == nil || have.open > 0 {
		return err
	}
	err = p.tools.change(ctx, changeTimeout, "lvchange", "-an", p.VG+"/"+name)
	if err != nil && !errors.Is(err, errInUse) {
		return fmt.Errorf("deactivate %s in pool %s: %w", name, p.name(), err)
	}
	return nil
}

// flush writes what the block device still holds back, for a cut.
func (p *Pool) flush(id fsm.VolumeID) error {
	on, err := p.kernel.device(p.layerName(id))
	if err != nil || on == nil {
		return err
	}
	f, err := os.OpenFile(on.path(), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("flush volume %s: %w", id, err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("flush volume %s: %w", id, err)
	}
	return nil
}
