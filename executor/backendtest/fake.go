package backendtest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Fake is a pool in memory. It outlives the executors that use it, as a disk does.
type Fake struct {
	mu       sync.Mutex
	fail     func(effect string, id fsm.VolumeID) error
	wholly   bool  // it cannot share blocks
	rate     int64 // bytes a second; 0: 1 GiB
	absent   bool
	images   map[fsm.VolumeID]int64
	tmp      map[fsm.VolumeID]bool
	attached map[fsm.VolumeID]executor.Device
	next     uint64
	effects  map[string]int

	content      map[fsm.VolumeID]blocks
	snapshots    map[fsm.SnapshotID]snapshot
	tmpSnapshots map[fsm.SnapshotID]bool
}

// NewFake is an empty pool.
func NewFake() *Fake {
	return &Fake{
		images: map[fsm.VolumeID]int64{}, tmp: map[fsm.VolumeID]bool{}, attached: map[fsm.VolumeID]executor.Device{}, effects: map[string]int{},
		content: map[fsm.VolumeID]blocks{}, snapshots: map[fsm.SnapshotID]snapshot{}, tmpSnapshots: map[fsm.SnapshotID]bool{},
	}
}

var _ executor.Backend = (*Fake)(nil)

var errAbsent = errors.New("the pool is absent")

// ID is always the same.
func (f *Fake) ID() fsm.PoolID { return "hp-fake" }

// Kind is "loopfile", for which it stands in.
func (f *Fake) Kind() string { return "loopfile" }

// SetFail has fail asked before each effect ("create", "remove", "attach", "detach",
// "create-from", "grow"; by the snapshot's id "cut" and "remove-snapshot"), which it may fail.
func (f *Fake) SetFail(fail func(effect string, id fsm.VolumeID) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// SetCopies makes it a pool that cannot share blocks, or one that can.
func (f *Fake) SetCopies(copies bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wholly = copies
}

// SetRate is for what CopyRate says, in bytes a second.
func (f *Fake) SetRate(rate int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

// SetAbsent takes the pool away or brings it back.
func (f *Fake) SetAbsent(absent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absent = absent
}

// Interrupt leaves what a crash in the middle of Create leaves.
func (f *Fake) Interrupt(id fsm.VolumeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tmp[id] = true
}

// Lose makes the image vanish, as a careless operator does.
func (f *Fake) Lose(id fsm.VolumeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.images, id)
}

// Effects is how often an effect was brought about on a volume, or it was looked
// at ("observe").
func (f *Fake) Effects(effect string, id fsm.VolumeID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.effects[effect+string(id)]
}

// Images and Attached count what is there.
func (f *Fake) Images() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.images) + len(f.tmp) }

// Attached is how many devices there are.
func (f *Fake) Attached() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.attached) }

// Facts are made up.
func (f *Fake) Facts(context.Context) executor.PoolFacts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent {
		return executor.PoolFacts{ID: f.ID(), Absent: true, Detail: errAbsent.Error()}
	}
	return executor.PoolFacts{ID: f.ID(), Free: 1 << 40, Capacity: 1 << 40}
}

// Observe looks at one volume.
func (f *Fake) Observe(_ context.Context, id fsm.VolumeID) (executor.Device, error) {
	if err := checkID(id); err != nil {
		return executor.Device{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.effects["observe"+string(id)]++
	return f.observe(id), nil
}

func (f *Fake) observe(id fsm.VolumeID) executor.Device {
	d := f.attached[id]
	d.Absent = f.absent
	if !f.absent {
		d.Size, d.Exists = f.images[id]
		d.Unfinished = f.tmp[id]
	} else {
		d.Size, d.Exists = 0, false
	}
	return d
}

// effect counts, after asking whether it fails. Called without the lock.
func (f *Fake) effect(name string, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	return f.mayFail(name, id)
}

func (f *Fake) mayFail(name string, id fsm.VolumeID) error {
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

// Create makes an image.
func (f *Fake) Create(_ context.Context, id fsm.VolumeID, size int64) error {
	if err := f.effect("create", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, ok := f.images[id]; ok {
		return sameSize(id, have, size)
	}
	delete(f.tmp, id)
	f.images[id] = size
	f.effects["create"+string(id)]++
	return nil
}

// Remove removes it.
func (f *Fake) Remove(_ context.Context, id fsm.VolumeID) error {
	if err := f.effect("remove", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.attached[id].Active() {
		return fsm.Reject(fsm.InUse, "the image of %s is attached", id)
	}
	if _, ok := f.images[id]; ok {
		f.effects["remove"+string(id)]++
	}
	delete(f.images, id)
	delete(f.content, id)
	delete(f.tmp, id)
	return nil
}

// Attach makes a device.
func (f *Fake) Activate(_ context.Context, id fsm.VolumeID, readOnly bool) (executor.Device, error) {
	if err := f.effect("attach", id); err != nil {
		return executor.Device{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.images[id]; !ok {
		return executor.Device{}, fsm.Reject(fsm.Precondition, "there is no image of %s", id)
	}
	d := f.attached[id]
	if !d.Active() {
		f.next++
		f.effects["attach"+string(id)]++
		d = executor.Device{Path: fmt.Sprintf("/dev/fake%d", f.next), Number: f.next}
	}
	d.ReadOnly = readOnly
	f.attached[id] = d
	return f.observe(id), nil
}

// Detach ends it.
func (f *Fake) Deactivate(_ context.Context, id fsm.VolumeID) error {
	if err := f.effect("detach", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.attached[id].Active() {
		f.effects["detach"+string(id)]++
	}
	delete(f.attached, id)
	return nil
}

// Inventory lists it all.
func (f *Fake) Inventory(context.Context) ([]executor.InventoryItem, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent {
		return nil, errAbsent
	}
	var items []executor.InventoryItem
	for id := range f.images {
		items = append(items, executor.InventoryItem{Kind: "image", Volume: id, Path: "/fake/volumes/" + string(id)})
	}
	for id := range f.tmp {
		items = append(items, executor.InventoryItem{Kind: "unfinished", Volume: id, Path: "/fake/tmp/" + string(id)})
	}
	for id := range f.snapshots {
		items = append(items, executor.InventoryItem{Kind: "snapshot", Snapshot: id, Path: "/fake/snapshots/" + string(id)})
	}
	for id := range f.tmpSnapshots {
		items = append(items, executor.InventoryItem{Kind: "unfinished", Snapshot: id, Path: "/fake/tmp/" + string(id)})
	}
	for id, d := range f.attached {
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

// Owner is the volume whose device has the path now.
func (f *Fake) Owner(path string) (fsm.VolumeID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, d := range f.attached {
		if d.Path == path {
			return id, true
		}
	}
	return "", false
}

// Reboot ends all devices, as a restart of the host does.
func (f *Fake) Reboot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.attached)
}
