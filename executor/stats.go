package executor

import (
	"context"

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
		stats.Condition = e.condition(v, &device, stats.Condition)
		e.measured(v, stats.Condition)
	}
	return stats, err
}

// measured has the log told when the volume fell ill or recovered.
func (e *Executor) measured(v *volume, now fsm.Condition) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.health = &now
	if now.Abnormal != (v.shown.Ailing != "") {
		e.queue.add(v.id)
	}
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

// condition adds what the host knows of the device to what was measured.
func (e *Executor) condition(v *volume, device *Device, measured fsm.Condition) fsm.Condition {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case device.Absent:
		return fsm.Condition{Abnormal: true, Message: "the pool of the volume is absent"}
	case !device.Exists:
		return fsm.Condition{Abnormal: true, Message: "the image of the volume is missing"}
	case v.parked != nil:
		return fsm.Condition{Abnormal: true, Message: "a command on the device cannot be killed"}
	}
	return measured
}

// Inventory lists what is below the pools, the kernel's devices of it, and their
// mounts: what an audit compares with the state. It is an error when a pool is
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
	return all, nil
}

func (e *Executor) mountsOf(ctx context.Context, pool Backend, id fsm.VolumeID) ([]Mount, error) {
	device, err := pool.Observe(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.Mounter.Mounts(ctx, device)
}
