package lvm

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Activate creates the volume's block device, a linear device on top of the logical volume, or
// adopts the existing one.
func (p *Pool) Activate(ctx context.Context, id fsm.VolumeID, readOnly bool) (executor.Device, error) {
	var d executor.Device
	if err := checkID(id); err != nil {
		return d, err
	}
	done, state, err := p.lock.recent(ctx)
	if err != nil {
		return d, err
	}
	defer done()
	lv, size, err := p.findVolume(state, id)
	if err != nil {
		return d, err
	}
	if err := p.layers.ensure(ctx, state, lv, size, readOnly); err != nil {
		return d, err
	}
	d.Exists, d.Size = true, size
	if err := p.layers.fill(id, &d); err != nil {
		return d, err
	}
	if !d.Active() || d.ReadOnly != readOnly {
		return d, fmt.Errorf("attach volume %s: the kernel does not show its device as asked", id)
	}
	return d, nil
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
	if err := p.layers.remove(ctx, id); err != nil {
		return err
	}
	done, state, err := p.lock.recent(ctx)
	if isAbsent(err) {
		return nil // the logical volume below is in use by no device on top
	}
	if err != nil {
		return err
	}
	defer done()
	return p.deactivateLV(ctx, state, string(id))
}
