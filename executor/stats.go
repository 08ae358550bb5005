package executor

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Stats measures a volume where it is staged or bound. It is NotFound where the
// volume is not.
func (e *Executor) Stats(ctx context.Context, id fsm.VolumeID, path string) (Stats, error) {
	none := fsm.Reject(fsm.NotFound, "volume %s is not at %s", id, path)
	if !id.Valid() || !e.knows(id) {
		return Stats{}, none
	}
	type answer struct {
		stats Stats
		err   error
	}
	answered := make(chan answer, 1)
	go func() { // a filesystem that hangs must not hang its caller
		stats, err := e.measure(ctx, id, path, none)
		answered <- answer{stats, err}
	}()
	patience, stop := beforeDeadline(ctx)
	defer stop()
	select {
	case a := <-answered:
		return a.stats, a.err
	case <-patience:
	case <-ctx.Done():
	}
	return Stats{}, fsm.Reject(fsm.Busy, "volume %s does not answer", id)
}

func (e *Executor) measure(ctx context.Context, id fsm.VolumeID, path string, none error) (Stats, error) {
	e.mu.Lock()
	v, ok := e.volumes[id]
	if !ok {
		e.mu.Unlock()
		return Stats{}, none
	}
	held := v.shown.Staging
	e.mu.Unlock()
	backend, err := e.backend(v)
	if err != nil {
		return Stats{}, err
	}
	size := e.leastSize(v)
	device, err := backend.Observe(ctx, id)
	if err != nil || !device.Attached() {
		return Stats{}, none
	}
	block, found, err := e.whereIs(ctx, device, path, held)
	if err != nil || !found {
		return Stats{}, none
	}
	stats, err := e.Mounter.Stats(ctx, device, path, block)
	if err == nil {
		stats.Condition = e.examined(ctx, v, &vitals{device: device, size: size, mounted: true, measured: stats.Condition})
	}
	return stats, err
}

// whereIs tells whether the volume is at the path, and as what.
func (e *Executor) whereIs(ctx context.Context, device Device, path string, held *staging) (block, found bool, err error) {
	real := e.real(path)
	if held != nil && held.Block && e.real(held.Path) == real {
		return true, true, nil
	}
	mounts, err := e.Mounter.Mounts(ctx, device)
	for _, m := range mounts {
		if m.Path == real {
			return m.Node, true, nil
		}
	}
	return false, false, err
}

// Inventory lists what is below the pools, the kernel's devices of it and of replicas,
// and their mounts: what an audit compares with the state. It is an error when a pool is
// absent: then nothing can be said (S12).
func (e *Executor) Inventory(ctx context.Context) ([]InventoryItem, error) {
	var all []InventoryItem
	for _, pool := range e.Pools {
		items, err := pool.Inventory(ctx)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			all = append(all, item)
			if item.Kind != KindLoop || !item.ID.Valid() {
				continue
			}
			mounts, err := e.mountsOf(ctx, pool, item.ID)
			if err != nil {
				return nil, err
			}
			for _, m := range mounts {
				all = append(all, InventoryItem{Kind: KindMount, ID: item.ID, Path: m.Path})
			}
		}
	}
	replicas, err := e.replicaItems(ctx)
	return once(append(all, replicas...)), err
}

// once leaves out what is listed twice.
func once(all []InventoryItem) []InventoryItem {
	listed := make(map[InventoryItem]bool, len(all))
	return slices.DeleteFunc(all, func(item InventoryItem) bool {
		again := listed[item]
		listed[item] = true
		return again
	})
}

// replicaItems are the resources of replicated volumes, and the mounts of those that are
// primary: the device that is mounted is not the one below.
func (e *Executor) replicaItems(ctx context.Context) (all []InventoryItem, err error) {
	if e.Replicator == nil {
		return nil, nil
	}
	known, err := e.Replicator.Known(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the replicated volumes: %w", err)
	}
	for _, id := range known {
		all = append(all, InventoryItem{Kind: KindResource, ID: id})
		mounts, err := e.replicaMounts(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, m := range mounts {
			all = append(all, InventoryItem{Kind: KindMount, ID: id, Path: m.Path})
		}
	}
	return all, nil
}

func (e *Executor) replicaMounts(ctx context.Context, id fsm.VolumeID) ([]Mount, error) {
	e.mu.Lock()
	v := e.volumes[id]
	e.mu.Unlock()
	if v == nil {
		return nil, nil // nobody knows its device
	}
	view, _ := e.view(v)
	if view == nil {
		return nil, nil // its pool is none of this host's: what is left of it is the resource
	}
	have, err := view.look(ctx)
	if err != nil || !have.Primary {
		return nil, err
	}
	return e.Mounter.Mounts(ctx, have.device())
}

func (e *Executor) mountsOf(ctx context.Context, pool Backend, id fsm.VolumeID) ([]Mount, error) {
	device, err := pool.Observe(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.Mounter.Mounts(ctx, device)
}
