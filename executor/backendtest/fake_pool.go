package backendtest

import "github.com/holdfast-storage/holdfast/fsm"

// FakePool is a pool in memory, as a test sees it: it sets what fails, does what happens to a pool
// beside the backend, and reads what is in it.
type FakePool struct{ *fakeState }

// SetFail sets a function that is called before each effect, which fails with the error it
// returns. Effects are "create", "remove", "attach", "detach", "create-from", "grow", "revert",
// "shrink", and with the snapshot's id "cut" and "remove-snapshot".
func (f *FakePool) SetFail(fail func(effect string, id fsm.VolumeID) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// SetFullCopies sets whether the pool cannot share blocks.
func (f *FakePool) SetFullCopies(full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fullCopies = full
}

// SetRate sets what CopyRate returns, in bytes a second.
func (f *FakePool) SetRate(rate int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = rate
}

// SetAbsent makes the pool absent or present.
func (f *FakePool) SetAbsent(absent bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.absent = absent
}

// Reboot removes all devices, as a restart of the host does.
func (f *FakePool) Reboot() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.active)
}

// InterruptCreate leaves what a crash during Create leaves.
func (f *FakePool) InterruptCreate(id fsm.VolumeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unfinished[id] = true
}

// InterruptRevert leaves what a crash during Revert leaves.
func (f *FakePool) InterruptRevert(id fsm.VolumeID) { f.InterruptCreate(id) }

// InterruptSnapshot leaves what a crash during TakeSnapshot leaves.
func (f *FakePool) InterruptSnapshot(id fsm.SnapshotID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unfinishedSnapshots[id] = true
}

// LoseImage removes the image, as a careless operator does.
func (f *FakePool) LoseImage(id fsm.VolumeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.images, id)
}

// LoseSnapshot removes a snapshot, as a careless operator does.
func (f *FakePool) LoseSnapshot(id fsm.SnapshotID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.snapshots, id)
}

// Effects returns how often an effect was carried out on a volume, or how often the volume was
// observed ("observe").
func (f *FakePool) Effects(effect string, id fsm.VolumeID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.effects[effect+string(id)]
}

// Images returns how many images there are.
func (f *FakePool) Images() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.images) + len(f.unfinished)
}

// Snapshots returns how many snapshots there are, finished or not.
func (f *FakePool) Snapshots() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.snapshots) + len(f.unfinishedSnapshots)
}

// ActiveDevices returns how many volumes are activated.
func (f *FakePool) ActiveDevices() int { f.mu.Lock(); defer f.mu.Unlock(); return len(f.active) }

// Owner returns the volume whose device has the path now.
func (f *FakePool) Owner(path string) (fsm.VolumeID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, d := range f.active {
		if d.Path == path {
			return id, true
		}
	}
	return "", false
}

// DiscardZeros gives blocks back that hold nothing but zeros: what a filesystem in memory does not use.
func (f *FakePool) DiscardZeros(id fsm.VolumeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for number, block := range f.content[id] {
		if *block == ([BlockBytes]byte{}) {
			delete(f.content[id], number)
		}
	}
}

// Write writes bytes into a volume, as a writer on its device does.
func (f *FakePool) Write(id fsm.VolumeID, at int64, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.content[id] == nil {
		f.content[id] = blocks{}
	}
	for len(data) > 0 {
		number, in := at/BlockBytes, at%BlockBytes
		fresh := &[BlockBytes]byte{}
		if old := f.content[id][number]; old != nil {
			*fresh = *old
		}
		n := copy(fresh[in:], data)
		f.content[id][number] = fresh
		at, data = at+int64(n), data[n:]
	}
}
