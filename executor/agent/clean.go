package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Clean unmounts and deactivates everything of the host's pools; images stay. It needs
// neither the log nor Start. What is busy is returned as an error after the rest is done.
func (a *Agent) Clean(ctx context.Context) error {
	a.freezer.thawLeftovers()
	errs := []error{a.cleaner.cleanReplicas(ctx)}
	for _, pool := range a.Pools {
		items, err := pool.Inventory(ctx)
		errs = append(errs, err)
		for _, item := range items {
			if item.Kind == executor.KindDevice && item.Volume.Valid() {
				errs = append(errs, a.cleaner.cleanVolume(ctx, pool, item.Volume))
			}
		}
	}
	a.mu.Lock()
	var recorded []*volume
	for _, v := range a.volumes {
		recorded = append(recorded, v)
	}
	a.mu.Unlock()
	for _, v := range recorded {
		errs = append(errs, a.cleaner.cleanRecord(ctx, v))
	}
	return errors.Join(errs...)
}

// cleanVolume ends all mounts, the newest first, then closes the mapping and deactivates the device.
func (c *cleaner) cleanVolume(ctx context.Context, pool executor.Backend, id fsm.VolumeID) error {
	mounts, err := c.mountsOf(ctx, pool, id)
	if err != nil {
		return err
	}
	device, err := c.usedDevice(ctx, pool, id)
	if err != nil {
		return err
	}
	for _, m := range slices.Backward(mounts) {
		if err := c.Mounter.Unmount(ctx, device, m.Path); err != nil {
			return err
		}
	}
	if err := c.closeAny(ctx, id); err != nil {
		return err
	}
	return pool.Deactivate(ctx, id)
}

// closeAny closes the volume's mapping where there is one.
func (c *cleaner) closeAny(ctx context.Context, id fsm.VolumeID) error {
	if c.Encryptor == nil {
		return nil
	}
	if mapping, err := c.Encryptor.Mapping(ctx, id); err != nil || !mapping.Exists {
		return err
	}
	return c.Encryptor.Close(ctx, id)
}

// cleanRecord removes the targets that the host made, and records that nothing is up.
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
	j := &job{volumeWorker: c.volumeWorker, v: v, want: &plan.VolumeSpec{Volume: v.id}}
	return j.takeDown(ctx)
}

// cleanReplicas removes all replicas from the kernel, after unmounting them. Their backing
// devices stay.
func (c *cleaner) cleanReplicas(ctx context.Context) error {
	if c.Replicator == nil {
		return nil
	}
	c.mu.Lock()
	var all []*volume
	for _, v := range c.volumes {
		if v.recordCopy.Replica != nil {
			all = append(all, v)
		}
	}
	c.mu.Unlock()
	var errs []error
	for _, v := range all {
		errs = append(errs, c.cleanReplica(ctx, v))
	}
	return errors.Join(errs...)
}

func (c *cleaner) cleanReplica(ctx context.Context, v *volume) error {
	if err := c.cleanRecord(ctx, v); err != nil {
		return err
	}
	have, err := c.observer.resourceStatus(ctx, v)
	if err != nil || !have.InKernel {
		return err
	}
	if have.Primary {
		if err := c.Replicator.SetSecondary(ctx, v.id); err != nil {
			return err
		}
	}
	return c.Replicator.Down(ctx, v.id)
}
