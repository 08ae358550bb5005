package executor

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Stats measures a volume where it is staged or bound. It is NotFound where the
// volume is not.
func (e *Executor) VolumeStats(ctx context.Context, id fsm.VolumeID, path string) (VolumeStats, error) {
	none := fsm.Reject(fsm.NotFound, "volume %s is not at %s", id, path)
	if !id.Valid() || !e.isKnown(id) {
		return VolumeStats{}, none
	}
	type answer struct {
		stats VolumeStats
		err   error
	}
	answered := make(chan answer, 1)
	go func() { // a filesystem that hangs must not hang its caller
		stats, err := e.health.measure(ctx, id, path, none)
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
	return VolumeStats{}, fsm.Reject(fsm.Busy, "volume %s does not answer", id)
}

func (h *healthChecker) measure(ctx context.Context, id fsm.VolumeID, path string, none error) (VolumeStats, error) {
	h.mu.Lock()
	v, ok := h.volumes[id]
	if !ok {
		h.mu.Unlock()
		return VolumeStats{}, none
	}
	staged := v.recordCopy.Staging
	h.mu.Unlock()
	backend, err := h.poolSet.backend(v)
	if err != nil {
		return VolumeStats{}, err
	}
	size := h.minImageSize(v)
	device, err := backend.Observe(ctx, id)
	if err != nil || !device.Active() {
		return VolumeStats{}, none
	}
	block, found, err := h.whereIs(ctx, device, path, staged)
	if err != nil || !found {
		return VolumeStats{}, none
	}
	stats, err := h.Mounter.Stats(ctx, device, path, block)
	if err == nil {
		stats.Condition = h.recordHealth(ctx, v, &healthInputs{device: device, size: size, mounted: true, measuredCondition: stats.Condition})
	}
	return stats, err
}

// whereIs tells whether the volume is at the path, and as what.
func (h *healthChecker) whereIs(ctx context.Context, device Device, path string, staged *stagingRecord) (block, found bool, err error) {
	realPath := h.realPath(path)
	if staged != nil && staged.Block && h.realPath(staged.Path) == realPath {
		return true, true, nil
	}
	mounts, err := h.Mounter.Mounts(ctx, device)
	for _, m := range mounts {
		if m.Path == realPath {
			return m.DeviceNode, true, nil
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
			if item.Kind != KindDevice || !item.Volume.Valid() {
				continue
			}
			mounts, err := e.mountsOf(ctx, pool, item.Volume)
			if err != nil {
				return nil, err
			}
			for _, m := range mounts {
				all = append(all, InventoryItem{Kind: KindMount, Volume: item.Volume, Path: m.Path})
			}
		}
	}
	replicas, err := e.lister.replicaItems(ctx)
	return dedupe(append(all, replicas...)), err
}

// once leaves out what is listed twice.
func dedupe(all []InventoryItem) []InventoryItem {
	listed := make(map[InventoryItem]bool, len(all))
	return slices.DeleteFunc(all, func(item InventoryItem) bool {
		duplicate := listed[item]
		listed[item] = true
		return duplicate
	})
}

// replicaItems are the resources of replicated volumes, and the mounts of those that are
// primary: the device that is mounted is not the one below.
func (l *lister) replicaItems(ctx context.Context) (all []InventoryItem, err error) {
	if l.Replicator == nil {
		return nil, nil
	}
	known, err := l.Replicator.ListResources(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the replicated volumes: %w", err)
	}
	for _, id := range known {
		all = append(all, InventoryItem{Kind: KindResource, Volume: id})
		mounts, err := l.replicaMounts(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, m := range mounts {
			all = append(all, InventoryItem{Kind: KindMount, Volume: id, Path: m.Path})
		}
	}
	return all, nil
}

func (l *lister) replicaMounts(ctx context.Context, id fsm.VolumeID) ([]Mount, error) {
	l.mu.Lock()
	v := l.volumes[id]
	l.mu.Unlock()
	if v == nil {
		return nil, nil // nobody knows its device
	}
	rb, _ := l.poolSet.replicaBackend(v)
	if rb == nil {
		return nil, nil // its pool is none of this host's: what is left of it is the resource
	}
	have, err := rb.observe(ctx)
	if err != nil || !have.Primary {
		return nil, err
	}
	return l.Mounter.Mounts(ctx, have.device())
}

func (en *env) mountsOf(ctx context.Context, pool Backend, id fsm.VolumeID) ([]Mount, error) {
	device, err := pool.Observe(ctx, id)
	if err != nil {
		return nil, err
	}
	return en.Mounter.Mounts(ctx, device)
}
