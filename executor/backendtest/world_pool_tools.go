package backendtest

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	_ executor.Backend         = (*poolTools)(nil)
	_ executor.SnapshotBackend = (*poolTools)(nil)
)

// poolTools is a pool as a process uses it.
type poolTools struct {
	process *Process
	pool    *Pool
}

// device is a block device of an image.
type device struct {
	path     string
	number   uint64
	readOnly bool
	pool     *Pool
}

func (t *poolTools) ID() fsm.PoolID { return t.pool.config.ID }
func (t *poolTools) Kind() string   { return t.pool.config.Kind }

func (t *poolTools) Facts(ctx context.Context) (facts executor.PoolFacts) {
	err := t.process.read(ctx, effect{part: "pool", name: "facts"}, func() error {
		facts = t.pool.facts()
		return nil
	})
	if err != nil {
		return executor.PoolFacts{ID: t.ID(), Absent: true, Detail: err.Error()}
	}
	return facts
}

func (t *poolTools) Observe(ctx context.Context, id fsm.VolumeID) (d executor.Device, err error) {
	if err := checkID(id); err != nil {
		return d, err
	}
	err = t.process.read(ctx, effect{part: "pool", name: "observe", volume: id}, func() error {
		d = t.pool.observe(id)
		return nil
	})
	return d, err
}

// observe describes an image and its device. The lock is held.
func (p *Pool) observe(id fsm.VolumeID) (d executor.Device) {
	if have := p.host.devices[id]; have != nil && have.pool == p {
		d = executor.Device{Path: have.path, Number: have.number, ReadOnly: have.readOnly, StablePath: stablePath(id)}
	}
	if d.Absent = p.absent; p.absent {
		return d
	}
	d.Unfinished = p.unfinished[id]
	if img := p.images[id]; img != nil {
		d.Exists, d.Size = true, img.size
	}
	return d
}

func stablePath(id fsm.VolumeID) string { return "/dev/by-volume/" + string(id) }

// volumeEffect does an effect on a volume of the pool.
func (t *poolTools) volumeEffect(ctx context.Context, name string, id fsm.VolumeID, act func() error) error {
	if err := checkID(id); err != nil {
		return err
	}
	return t.process.do(ctx, effect{part: "pool", name: name, volume: id}, act)
}

func (t *poolTools) Create(ctx context.Context, id fsm.VolumeID, size int64) error {
	p := t.pool
	begun := t.volumeEffect(ctx, "create-begin", id, func() error { return p.beginImage(id, size) })
	if begun != nil {
		return begun
	}
	return t.volumeEffect(ctx, "create", id, func() error {
		if err := p.check(); err != nil {
			return err
		}
		if img := p.images[id]; img != nil {
			return sameSize(id, img.size, size)
		}
		p.finishImage(id, &image{size: size})
		return nil
	})
}

// beginImage leaves what is there before an image is complete.
func (p *Pool) beginImage(id fsm.VolumeID, size int64) error {
	if err := p.check(); err != nil {
		return err
	}
	if img := p.images[id]; img != nil {
		return sameSize(id, img.size, size)
	}
	p.unfinished[id] = true
	return nil
}

func (p *Pool) finishImage(id fsm.VolumeID, img *image) {
	delete(p.unfinished, id)
	p.images[id] = img
}

func (t *poolTools) Remove(ctx context.Context, id fsm.VolumeID) error {
	p := t.pool
	return t.volumeEffect(ctx, "remove", id, func() error {
		switch {
		case p.absent:
			return errAbsent
		case p.hanging:
			return errHangs
		case p.host.devices[id] != nil:
			return fsm.Reject(fsm.InUse, "the image of %s is active", id)
		}
		p.checkWiped(id)
		p.erase(id)
		delete(p.unfinished, id)
		return nil
	})
}

func (t *poolTools) Activate(ctx context.Context, id fsm.VolumeID, readOnly bool) (d executor.Device, err error) {
	p := t.pool
	err = t.volumeEffect(ctx, "activate", id, func() error {
		switch {
		case p.absent:
			return errAbsent
		case p.hanging:
			return errHangs
		case p.images[id] == nil:
			return fsm.Reject(fsm.Precondition, "there is no image of %s", id)
		}
		if err := p.host.activate(p, id, readOnly); err != nil {
			return err
		}
		d = p.observe(id)
		return nil
	})
	return d, err
}

// activate gives an image the free device with the lowest number. The lock is held.
func (h *Host) activate(p *Pool, id fsm.VolumeID, readOnly bool) error {
	if have := h.devices[id]; have != nil {
		if have.readOnly != readOnly && h.isOpen(have.number) {
			return fsm.Reject(fsm.Busy, "%s is open with read-only %v", have.path, have.readOnly)
		}
		have.readOnly = readOnly
		return nil
	}
	taken := map[uint64]bool{}
	for _, d := range h.devices {
		taken[d.number] = true
	}
	minor := uint64(0)
	for taken[7<<8|minor] {
		minor++
	}
	h.devices[id] = &device{path: fmt.Sprintf("/dev/loop%d", minor), number: 7<<8 | minor, readOnly: readOnly, pool: p}
	return nil
}

func (t *poolTools) Deactivate(ctx context.Context, id fsm.VolumeID) error {
	h := t.process.host
	return t.volumeEffect(ctx, "deactivate", id, func() error {
		have := h.devices[id]
		switch {
		case have == nil:
			return nil
		case h.isOpen(have.number) || h.world.holdsDisk(h, id):
			return fsm.Reject(fsm.Busy, "the device %s of %s is open", have.path, id)
		}
		delete(h.devices, id)
		return nil
	})
}

func (t *poolTools) Inventory(ctx context.Context) (items []executor.InventoryItem, err error) {
	err = t.process.read(ctx, effect{part: "pool", name: "inventory"}, func() error {
		if t.pool.absent {
			return errAbsent
		}
		items = t.pool.inventory()
		return nil
	})
	return items, err
}

func (p *Pool) inventory() (items []executor.InventoryItem) {
	for _, id := range sortedKeys(p.images) {
		items = append(items, executor.InventoryItem{Kind: executor.KindImage, Volume: id, Path: "/pool/volumes/" + string(id)})
	}
	for _, id := range sortedKeys(p.unfinished) {
		items = append(items, executor.InventoryItem{Kind: executor.KindUnfinished, Volume: id, Path: "/pool/tmp/" + string(id)})
	}
	for _, id := range sortedKeys(p.snapshots) {
		items = append(items, executor.InventoryItem{Kind: executor.KindSnapshot, Snapshot: id, Path: "/pool/snapshots/" + string(id)})
	}
	for _, id := range sortedKeys(p.unfinishedSnapshots) {
		items = append(items, executor.InventoryItem{Kind: executor.KindUnfinished, Snapshot: id, Path: "/pool/tmp/" + string(id)})
	}
	for _, id := range sortedKeys(p.host.devices) {
		if d := p.host.devices[id]; d.pool == p {
			items = append(items, executor.InventoryItem{Kind: executor.KindDevice, Volume: id, Path: d.path})
		}
	}
	return items
}
