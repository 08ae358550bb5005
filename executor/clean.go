package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Clean unmounts and detaches everything of the host's pools, images stay. It
// needs no log and no Start. What is busy is an error; the rest is done.
func (e *Executor) Clean(ctx context.Context) error {
	e.freezer.thawLeftovers()
	errs := []error{e.cleaner.cleanReplicas(ctx)}
	for _, pool := range e.Pools {
		items, err := pool.Inventory(ctx)
		errs = append(errs, err)
		for _, item := range items {
			if item.Kind == KindDevice && item.Volume.Valid() {
				errs = append(errs, e.cleaner.cleanVolume(ctx, pool, item.Volume))
			}
		}
	}
	e.mu.Lock()
	var recorded []*volume
	for _, v := range e.volumes {
		recorded = append(recorded, v)
	}
	e.mu.Unlock()
	for _, v := range recorded {
		errs = append(errs, e.cleaner.cleanRecord(ctx, v))
	}
	return errors.Join(errs...)
}

// cleanVolume takes off all mounts, the newest first, then the device.
func (c *cleaner) cleanVolume(ctx context.Context, pool Backend, id fsm.VolumeID) error {
	mounts, err := c.mountsOf(ctx, pool, id)
	if err != nil {
		return err
	}
	device, err := pool.Observe(ctx, id)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(mounts) {
		if err := c.Mounter.Unmount(ctx, device, m.Path); err != nil {
			return err
		}
	}
	return pool.Deactivate(ctx, id)
}

// cleanRecord removes the targets that the host made, and notes that nothing is up.
func (c *cleaner) cleanRecord(ctx context.Context, v *volume) error {
	select {
	case v.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer c.unlock(v)
	if err := c.records.openRecord(v); err != nil {
		return err
	}
	if v.record.Staging == nil && len(v.record.Targets) == 0 {
		return nil
	}
	j := &job{volumeWorker: c.volumeWorker, v: v, want: &volumeSpec{volume: v.id}}
	return j.takeDown(ctx)
}
