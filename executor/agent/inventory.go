package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Inventory lists what is in the pools' storage, the kernel's devices of it and of replicas, their
// mounts, and the mappings and headers of encrypted volumes: an audit compares it with the state. It fails when
// a pool is absent, since then the list would be incomplete (S12).
func (a *Agent) Inventory(ctx context.Context) (executor.Inventory, error) {
	all, err := a.poolItems(ctx)
	if err != nil {
		return executor.Inventory{}, err
	}
	replicas, err := a.lister.replicaItems(ctx)
	if err != nil {
		return executor.Inventory{}, err
	}
	found := executor.Inventory{Items: append(all, replicas...), Encryption: a.Encryptor != nil}
	if found.Encryption {
		if found.Items, err = a.lister.withEncryption(ctx, found.Items); err != nil {
			return executor.Inventory{}, err
		}
	}
	found.Items = dedupe(found.Items)
	return found, nil
}

// poolItems lists the pools' storage, the devices of it and their mounts.
func (a *Agent) poolItems(ctx context.Context) (all []executor.InventoryItem, err error) {
	for _, pool := range a.Pools {
		items, err := pool.Inventory(ctx)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			all = append(all, item)
			if item.Kind != executor.KindDevice || !item.Volume.Valid() {
				continue
			}
			mounts, err := a.mountsOf(ctx, pool, item.Volume)
			if err != nil {
				return nil, err
			}
			for _, m := range mounts {
				all = append(all, executor.InventoryItem{Kind: executor.KindMount, Volume: item.Volume, Path: m.Path})
			}
		}
	}
	return all, nil
}

// dedupe omits what is listed twice.
func dedupe(all []executor.InventoryItem) []executor.InventoryItem {
	listed := make(map[executor.InventoryItem]bool, len(all))
	return slices.DeleteFunc(all, func(item executor.InventoryItem) bool {
		duplicate := listed[item]
		listed[item] = true
		return duplicate
	})
}

// replicaItems lists the resources of replicated volumes, and the mounts of those that are
// primary: the mounted device is DRBD's, not the backing device.
func (l *lister) replicaItems(ctx context.Context) (all []executor.InventoryItem, err error) {
	if l.Replicator == nil {
		return nil, nil
	}
	known, err := l.Replicator.ListResources(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the replicated volumes: %w", err)
	}
	for _, id := range known {
		all = append(all, executor.InventoryItem{Kind: executor.KindResource, Volume: id})
		mounts, err := l.replicaMounts(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, m := range mounts {
			all = append(all, executor.InventoryItem{Kind: executor.KindMount, Volume: id, Path: m.Path})
		}
	}
	return all, nil
}

func (l *lister) replicaMounts(ctx context.Context, id fsm.VolumeID) ([]executor.Mount, error) {
	l.mu.Lock()
	v := l.volumes[id]
	l.mu.Unlock()
	if v == nil {
		return nil, nil // its device is not known
	}
	rb, _ := l.poolSet.replicaBackend(v)
	if rb == nil {
		return nil, nil // its pool is not on this host: only the resource is left of it
	}
	have, err := rb.observe(ctx)
	if err != nil || !have.Primary {
		return nil, err
	}
	device, _, err := l.aboveEncryption(ctx, v, have.Device())
	if err != nil {
		return nil, err
	}
	return l.Mounter.Mounts(ctx, device)
}

func (en *env) mountsOf(ctx context.Context, pool executor.Backend, id fsm.VolumeID) ([]executor.Mount, error) {
	device, err := en.usedDevice(ctx, pool, id)
	if err != nil {
		return nil, err
	}
	return en.Mounter.Mounts(ctx, device)
}

// usedDevice is the volume's mapping where it has one, also without a record or the log, else the pool's device.
func (en *env) usedDevice(ctx context.Context, pool executor.Backend, id fsm.VolumeID) (executor.Device, error) {
	if en.Encryptor != nil {
		if mapping, err := en.Encryptor.Mapping(ctx, id); err != nil || mapping.Exists {
			return mapping, err
		}
	}
	return pool.Observe(ctx, id)
}
