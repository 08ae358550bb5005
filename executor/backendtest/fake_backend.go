package backendtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// FakeBackend is a FakePool as the agent uses it. It survives the agents that use it, as a disk does.
type FakeBackend struct {
	*FakePool
	faults fakeFaults
}

// NewFakeBackend returns the backend of an empty pool.
func NewFakeBackend() *FakeBackend {
	state := newFakeState()
	return &FakeBackend{&FakePool{state}, fakeFaults{state}}
}

var _ executor.Backend = (*FakeBackend)(nil)

var errAbsent = errors.New("the pool is absent")

// ID returns always the same id.
func (f *FakeBackend) ID() fsm.PoolID { return "hp-fake" }

// Kind returns "loopfile", the backend that it stands in for.
func (f *FakeBackend) Kind() string { return "loopfile" }

// Facts returns invented facts.
func (f *FakeBackend) Facts(context.Context) executor.PoolFacts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent {
		return executor.PoolFacts{ID: f.ID(), Absent: true, Detail: errAbsent.Error()}
	}
	return executor.PoolFacts{ID: f.ID(), Free: 1 << 40, Capacity: 1 << 40}
}

// Observe returns the state of one volume.
func (f *FakeBackend) Observe(_ context.Context, id fsm.VolumeID) (executor.Device, error) {
	if err := checkID(id); err != nil {
		return executor.Device{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.effects["observe"+string(id)]++
	return f.observe(id), nil
}

// Create creates an image.
func (f *FakeBackend) Create(_ context.Context, id fsm.VolumeID, size int64) error {
	if err := f.faults.before("create", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, ok := f.images[id]; ok {
		return sameSize(id, have, size)
	}
	delete(f.unfinished, id)
	f.images[id] = size
	f.effects["create"+string(id)]++
	return nil
}

// Remove removes the image.
func (f *FakeBackend) Remove(_ context.Context, id fsm.VolumeID) error {
	if err := f.faults.before("remove", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active[id].Active() {
		return fsm.Reject(fsm.InUse, "the image of %s is attached", id)
	}
	if _, ok := f.images[id]; ok {
		f.effects["remove"+string(id)]++
	}
	delete(f.images, id)
	delete(f.content, id)
	delete(f.unfinished, id)
	return nil
}

// Activate creates the volume's device.
func (f *FakeBackend) Activate(_ context.Context, id fsm.VolumeID, readOnly bool) (executor.Device, error) {
	if err := f.faults.before("attach", id); err != nil {
		return executor.Device{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.images[id]; !ok {
		return executor.Device{}, fsm.Reject(fsm.Precondition, "there is no image of %s", id)
	}
	d := f.active[id]
	if !d.Active() {
		f.nextNumber++
		f.effects["attach"+string(id)]++
		d = executor.Device{Path: fmt.Sprintf("/dev/fake%d", f.nextNumber), Number: f.nextNumber}
	}
	d.ReadOnly = readOnly
	f.active[id] = d
	return f.observe(id), nil
}

// Deactivate removes the volume's device.
func (f *FakeBackend) Deactivate(_ context.Context, id fsm.VolumeID) error {
	if err := f.faults.before("detach", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active[id].Active() {
		f.effects["detach"+string(id)]++
	}
	delete(f.active, id)
	return nil
}

// Inventory lists all images and devices.
func (f *FakeBackend) Inventory(context.Context) ([]executor.InventoryItem, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent {
		return nil, errAbsent
	}
	var items []executor.InventoryItem
	for id := range f.images {
		items = append(items, executor.InventoryItem{Kind: "image", Volume: id, Path: "/fake/volumes/" + string(id)})
	}
	for id := range f.unfinished {
		items = append(items, executor.InventoryItem{Kind: "unfinished", Volume: id, Path: "/fake/tmp/" + string(id)})
	}
	for id := range f.snapshots {
		items = append(items, executor.InventoryItem{Kind: "snapshot", Snapshot: id, Path: "/fake/snapshots/" + string(id)})
	}
	for id := range f.unfinishedSnapshots {
		items = append(items, executor.InventoryItem{Kind: "unfinished", Snapshot: id, Path: "/fake/tmp/" + string(id)})
	}
	for id, d := range f.active {
		items = append(items, executor.InventoryItem{Kind: "loop", Volume: id, Path: d.Path})
	}
	return items, nil
}

func checkID(id fsm.VolumeID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a volume's id", string(id))
	}
	return nil
}

func sameSize(id fsm.VolumeID, have, size int64) error {
	if have != size {
		return fsm.Reject(fsm.Incompatible, "the image of %s has %d bytes, not %d", id, have, size)
	}
	return nil
}
