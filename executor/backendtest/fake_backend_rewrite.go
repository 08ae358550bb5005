package backendtest

import (
	"context"
	"maps"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Revert gives an image the content and the size of a snapshot.
func (f *FakeBackend) Revert(ctx context.Context, id fsm.VolumeID, to fsm.SnapshotID) error {
	if err := f.faults.before("revert", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.inactiveImage(id); err != nil {
		return err
	}
	from, err := f.findSnapshot(to)
	if err != nil {
		return err
	}
	if err := f.copyProgress(ctx, from.content, nil); err != nil {
		return err
	}
	delete(f.unfinished, id)
	f.images[id], f.content[id] = from.size, maps.Clone(from.content)
	f.effects["revert"+string(id)]++
	return nil
}

// Shrink cuts off the end of an image.
func (f *FakeBackend) Shrink(_ context.Context, id fsm.VolumeID, size int64) error {
	if err := f.faults.before("shrink", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	have, err := f.inactiveImage(id)
	if err == nil {
		err = checkShrink(id, have, size)
	}
	if err != nil || have == size {
		return err
	}
	f.images[id], f.content[id] = size, f.content[id].truncated(size)
	f.effects["shrink"+string(id)]++
	return nil
}

// inactiveImage returns the size of an image that may be replaced or cut. The lock is held.
func (f *FakeBackend) inactiveImage(id fsm.VolumeID) (size int64, err error) {
	size, ok := f.images[id]
	switch {
	case !ok:
		return 0, fsm.Reject(fsm.Precondition, "there is no image of %s", id)
	case f.active[id].Active():
		return 0, fsm.Reject(fsm.InUse, "the image of %s is attached", id)
	}
	return size, nil
}

func checkShrink(id fsm.VolumeID, have, size int64) error {
	switch {
	case size <= 0:
		return fsm.Reject(fsm.Invalid, "the image of %s cannot have %d bytes", id, size)
	case have < size:
		return fsm.Reject(fsm.Incompatible, "the image of %s has %d bytes, fewer than %d", id, have, size)
	}
	return nil
}
