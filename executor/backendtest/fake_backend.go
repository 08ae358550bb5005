package backendtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// FakeBackend is a pool in memory. It survives the executors that use it, as a disk does.
type FakeBackend struct {
	mu         sync.Mutex
	fail       func(countEffect string, id fsm.VolumeID) error
	fullCopies bool  // it cannot share blocks
	rate       int64 // bytes a second; 0: 1 GiB/s
	absent     bool
	images     map[fsm.VolumeID]int64
	unfinished map[fsm.VolumeID]bool
	active     map[fsm.VolumeID]executor.Device
	nextNumber uint64
	effects    map[string]int

	content             map[fsm.VolumeID]blocks
	snapshots           map[fsm.SnapshotID]fakeSnapshot
	unfinishedSnapshots map[fsm.SnapshotID]bool
}

// NewFakeBackend returns an empty pool.
func NewFakeBackend() *FakeBackend {
	return &FakeBackend{
		images: map[fsm.VolumeID]int64{}, unfinished: map[fsm.VolumeID]bool{}, active: map[fsm.VolumeID]executor.Device{}, effects: map[string]int{},
		content: map[fsm.VolumeID]blocks{}, snapshots: map[fsm.SnapshotID]fakeSnapshot{}, unfinishedSnapshots: map[fsm.SnapshotID]bool{},
	}
}

var _ executor.Backend = (*FakeBackend)(nil)

var errAbsent = errors.New("the pool is absent")

// ID returns always the same id.
func (f *FakeBackend) ID() fsm.PoolID { return "hp-fake" }

// Kind returns "loopfile", the backend that it stands in for.
func (f *FakeBackend) Kind() string { return "loopfile" }

// SetFail sets a function that is called before each effect, which fails with the error it
// returns. Effects are "create", "remove", "attach", "detach", "create-from", "grow", and with the
// snapshot's id "cut" and "remove-snapshot".
func (f *FakeBackend) SetFail(fail func(effect string, id fsm.VolumeID) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// SetFullCopies sets whether the pool cannot share blocks.
func (f *FakeBackend) SetFullCopies(full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fullCopies = full
}

// SetRate sets what CopyRate returns, in bytes a second.
func (f *FakeBackend) SetRate(rate int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

// SetAbsent makes the pool absent or present.
func (f *FakeBackend) SetAbsent(absent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absent = absent
}

// InterruptCreate leaves what a crash during Create leaves.
func (f *FakeBackend) InterruptCreate(id fsm.VolumeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unfinished[id] = true
}

// LoseImage removes the image, as a careless operator does.
func (f *FakeBackend) LoseImage(id fsm.VolumeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.images, id)
}

// Effects returns how often an effect was carried out on a volume, or how often the volume was
// observed ("observe").
func (f *FakeBackend) Effects(effect string, id fsm.VolumeID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.effects[effect+string(id)]
}

// Images returns how many images there are.
func (f *FakeBackend) Images() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.images) + len(f.unfinished)
}

// ActiveDevices returns how many volumes are activated.
func (f *FakeBackend) ActiveDevices() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.active) }

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

func (f *FakeBackend) observe(id fsm.VolumeID) executor.Device {
	d := f.active[id]
	d.Absent = f.absent
	if !f.absent {
		d.Size, d.Exists = f.images[id]
		d.Unfinished = f.unfinished[id]
	} else {
		d.Size, d.Exists = 0, false
	}
	return d
}

// countEffect checks the id and applies the failure that SetFail sets, before an effect. The lock
// must not be held.
func (f *FakeBackend) countEffect(name string, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	return f.injectFailure(name, id)
}

func (f *FakeBackend) injectFailure(name string, id fsm.VolumeID) error {
	f.mu.Lock()
	fail := f.fail
	f.mu.Unlock()
	if fail != nil {
		if err := fail(name, id); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent && name != "detach" {
		return errAbsent
	}
	return nil
}

// Create creates an image.
func (f *FakeBackend) Create(_ context.Context, id fsm.VolumeID, size int64) error {
	if err := f.countEffect("create", id); err != nil {
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
	if err := f.countEffect("remove", id); err != nil {
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
	if err := f.countEffect("attach", id); err != nil {
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
	if err := f.countEffect("detach", id); err != nil {
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

// Owner returns the volume whose device has the path now.
func (f *FakeBackend) Owner(path string) (fsm.VolumeID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, d := range f.active {
		if d.Path == path {
			return id, true
		}
	}
	return "", false
}

// Reboot removes all devices, as a restart of the host does.
func (f *FakeBackend) Reboot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.active)
}
