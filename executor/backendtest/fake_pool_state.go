package backendtest

import (
	"sync"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// fakeState is what a fake pool holds, and what was done to it. The callers of its methods hold mu.
type fakeState struct {
	mu         sync.Mutex
	fail       func(effect string, id fsm.VolumeID) error
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

func newFakeState() *fakeState {
	return &fakeState{
		images: map[fsm.VolumeID]int64{}, unfinished: map[fsm.VolumeID]bool{}, active: map[fsm.VolumeID]executor.Device{}, effects: map[string]int{},
		content: map[fsm.VolumeID]blocks{}, snapshots: map[fsm.SnapshotID]fakeSnapshot{}, unfinishedSnapshots: map[fsm.SnapshotID]bool{},
	}
}

func (f *fakeState) observe(id fsm.VolumeID) executor.Device {
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

func (f *fakeState) findSource(source fsm.Source) (fakeSnapshot, error) {
	if source.Volume != "" {
		size, ok := f.images[source.Volume]
		if !ok {
			return fakeSnapshot{}, fsm.Reject(fsm.Precondition, "there is no image of %s", source.Volume)
		}
		return fakeSnapshot{size, f.content[source.Volume]}, nil
	}
	return f.findSnapshot(source.Snapshot)
}

func (f *fakeState) findSnapshot(id fsm.SnapshotID) (fakeSnapshot, error) {
	if err := checkSnapshotID(id); err != nil {
		return fakeSnapshot{}, err
	}
	s, ok := f.snapshots[id]
	if !ok {
		return fakeSnapshot{}, fsm.Reject(fsm.Precondition, "there is no file of %s", id)
	}
	return s, nil
}
