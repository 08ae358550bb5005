package backendtest

import (
	"context"
	"maps"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.SnapshotBackend = (*FakeBackend)(nil)

// SharesBlocks returns true unless SetFullCopies was called.
func (f *FakeBackend) SharesBlocks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.fullCopies
}

// CopyRate returns what SetRate set, or 1 GiB a second.
func (f *FakeBackend) CopyRate(context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.absent:
		return 0, errAbsent
	case f.rate > 0:
		return f.rate, nil
	}
	return 1 << 30, nil
}

// ObserveSnapshot returns the state of one snapshot.
func (f *FakeBackend) ObserveSnapshot(_ context.Context, id fsm.SnapshotID) (executor.Device, error) {
	if err := checkSnapshotID(id); err != nil {
		return executor.Device{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.effects["observe-snapshot"+string(id)]++
	if f.absent {
		return executor.Device{Absent: true}, nil
	}
	d := executor.Device{Unfinished: f.unfinishedSnapshots[id]}
	if s, ok := f.snapshots[id]; ok {
		d.Exists, d.ReadOnly, d.Size = true, true, s.size
	}
	return d, nil
}

// Allocated returns the bytes of the volume's blocks.
func (f *FakeBackend) Allocated(_ context.Context, id fsm.VolumeID) (int64, error) {
	if err := f.faults.before("", id); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.images[id]; !ok {
		return 0, fsm.Reject(fsm.Precondition, "there is no image of %s", id)
	}
	return int64(len(f.content[id])) * BlockBytes, nil
}

// TakeSnapshot stores the content as it is now.
func (f *FakeBackend) TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, progress executor.Progress) error {
	if err := f.faults.beforeSnapshot("cut", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.snapshots[id]; ok {
		return nil
	}
	size, ok := f.images[source]
	if !ok {
		return fsm.Reject(fsm.Precondition, "there is no image of %s", source)
	}
	if err := f.copyProgress(ctx, f.content[source], progress); err != nil {
		return err
	}
	delete(f.unfinishedSnapshots, id)
	f.snapshots[id] = fakeSnapshot{size, maps.Clone(f.content[source])}
	f.effects["cut"+string(id)]++
	return nil
}

// RemoveSnapshot removes the snapshot.
func (f *FakeBackend) RemoveSnapshot(_ context.Context, id fsm.SnapshotID) error {
	if err := f.faults.beforeSnapshot("remove-snapshot", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.snapshots[id]; ok {
		f.effects["remove-snapshot"+string(id)]++
	}
	delete(f.snapshots, id)
	delete(f.unfinishedSnapshots, id)
	return nil
}

// CreateFrom creates an image with a source's content.
func (f *FakeBackend) CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, progress executor.Progress) error {
	if err := f.faults.before("create-from", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, ok := f.images[id]; ok {
		return sameSize(id, have, size)
	}
	from, err := f.findSource(source)
	if content > 0 && content < from.size {
		from = fakeSnapshot{content, from.content.truncated(content)}
	}
	switch {
	case err != nil:
		return err
	case from.size > size:
		return fsm.Reject(fsm.OutOfRange, "the source has %d bytes, more than the %d of the volume", from.size, size)
	}
	if err := f.copyProgress(ctx, from.content, progress); err != nil {
		return err
	}
	delete(f.unfinished, id)
	f.images[id], f.content[id] = size, maps.Clone(from.content)
	f.effects["create-from"+string(id)]++
	return nil
}

// Expand extends an image, and its device.
func (f *FakeBackend) Expand(_ context.Context, id fsm.VolumeID, size int64) error {
	if err := f.faults.before("grow", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	have, ok := f.images[id]
	switch {
	case !ok:
		return fsm.Reject(fsm.Precondition, "there is no image of %s", id)
	case have < size:
		f.images[id] = size
		f.effects["grow"+string(id)]++
	}
	return nil
}

// copyProgress reports the progress of a copy, if the pool copies. The lock is held.
func (f *FakeBackend) copyProgress(ctx context.Context, content blocks, progress executor.Progress) error {
	total := int64(len(content)) * BlockBytes
	for done := int64(0); f.fullCopies && done < total; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done += BlockBytes; progress != nil {
			progress(done, total)
		}
	}
	return ctx.Err()
}

// Map yields the allocated blocks.
func (f *FakeBackend) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	_, now, err := f.findPair(target, target)
	if err != nil {
		return err
	}
	return now.extents(ctx, fakeSnapshot{}, from, func(_, now *[BlockBytes]byte) bool { return now != nil }, yield)
}

// Delta yields the blocks that differ.
func (f *FakeBackend) Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	old, now, err := f.findPair(base, target)
	if err != nil {
		return err
	}
	return now.extents(ctx, old, from, func(old, now *[BlockBytes]byte) bool { return !equal(old, now) }, yield)
}

// findPair returns two snapshots of a pool that is present.
func (f *FakeBackend) findPair(base, target fsm.SnapshotID) (old, now fakeSnapshot, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.absent {
		return old, now, errAbsent
	}
	if old, err = f.findSnapshot(base); err == nil {
		now, err = f.findSnapshot(target)
	}
	return old, now, err
}

func checkSnapshotID(id fsm.SnapshotID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a snapshot's id", string(id))
	}
	return nil
}
