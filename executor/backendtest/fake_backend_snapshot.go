package backendtest

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.SnapshotBackend = (*FakeBackend)(nil)

// BlockBytes is the size of the blocks in which the fake stores content, in bytes.
const BlockBytes = 4096

// blocks is content by block number; a missing block reads as zero. Blocks are replaced, never
// changed, so copies of the map share them.
type blocks map[int64]*[BlockBytes]byte

// fakeSnapshot is a snapshot of a volume's content.
type fakeSnapshot struct {
	size    int64
	content blocks
}

// Write writes bytes into a volume, as a writer on its device does.
func (f *FakeBackend) Write(id fsm.VolumeID, at int64, data []byte) {
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

// Read returns a volume's complete content.
func (f *FakeBackend) Read(id fsm.VolumeID) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.content[id].bytes(f.images[id])
}

// ReadSnapshot returns a snapshot's complete content; nil when it does not exist.
func (f *FakeBackend) ReadSnapshot(id fsm.SnapshotID) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.snapshots[id]
	if !ok {
		return nil
	}
	return s.content.bytes(s.size)
}

func (b blocks) bytes(size int64) []byte {
	all := make([]byte, size)
	for number, block := range b {
		if at := number * BlockBytes; at < size {
			copy(all[at:], block[:])
		}
	}
	return all
}

// Snapshots returns how many snapshots there are, finished or not.
func (f *FakeBackend) Snapshots() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.snapshots) + len(f.unfinishedSnapshots)
}

// InterruptSnapshot leaves what a crash during TakeSnapshot leaves.
func (f *FakeBackend) InterruptSnapshot(id fsm.SnapshotID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unfinishedSnapshots[id] = true
}

// LoseSnapshot removes a snapshot, as a careless operator does.
func (f *FakeBackend) LoseSnapshot(id fsm.SnapshotID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.snapshots, id)
}

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
	if err := f.countEffect("", id); err != nil {
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
	if err := f.countSnapshotEffect("cut", id); err != nil {
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
	if err := f.reportCopyProgress(ctx, f.content[source], progress); err != nil {
		return err
	}
	delete(f.unfinishedSnapshots, id)
	f.snapshots[id] = fakeSnapshot{size, maps.Clone(f.content[source])}
	f.effects["cut"+string(id)]++
	return nil
}

// reportCopyProgress reports the progress of a copy, if the pool copies. The lock is held.
func (f *FakeBackend) reportCopyProgress(ctx context.Context, content blocks, progress executor.Progress) error {
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

// RemoveSnapshot removes the snapshot.
func (f *FakeBackend) RemoveSnapshot(_ context.Context, id fsm.SnapshotID) error {
	if err := f.countSnapshotEffect("remove-snapshot", id); err != nil {
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
	if err := f.countEffect("create-from", id); err != nil {
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
	if err := f.reportCopyProgress(ctx, from.content, progress); err != nil {
		return err
	}
	delete(f.unfinished, id)
	f.images[id], f.content[id] = size, maps.Clone(from.content)
	f.effects["create-from"+string(id)]++
	return nil
}

// truncated is the content up to a size; the rest is dropped.
func (b blocks) truncated(size int64) blocks {
	kept := blocks{}
	for number, block := range b {
		switch at := number * BlockBytes; {
		case at+BlockBytes <= size:
			kept[number] = block
		case at < size:
			part := &[BlockBytes]byte{}
			copy(part[:], block[:size-at])
			kept[number] = part
		}
	}
	return kept
}

func (f *FakeBackend) findSource(source fsm.Source) (fakeSnapshot, error) {
	if source.Volume != "" {
		size, ok := f.images[source.Volume]
		if !ok {
			return fakeSnapshot{}, fsm.Reject(fsm.Precondition, "there is no image of %s", source.Volume)
		}
		return fakeSnapshot{size, f.content[source.Volume]}, nil
	}
	return f.findSnapshot(source.Snapshot)
}

func (f *FakeBackend) findSnapshot(id fsm.SnapshotID) (fakeSnapshot, error) {
	if err := checkSnapshotID(id); err != nil {
		return fakeSnapshot{}, err
	}
	s, ok := f.snapshots[id]
	if !ok {
		return fakeSnapshot{}, fsm.Reject(fsm.Precondition, "there is no file of %s", id)
	}
	return s, nil
}

// Expand extends an image, and its device.
func (f *FakeBackend) Expand(_ context.Context, id fsm.VolumeID, size int64) error {
	if err := f.countEffect("grow", id); err != nil {
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

// Map yields the allocated blocks.
func (f *FakeBackend) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	return f.walkBlocks(ctx, target, target, from, func(_, now *[BlockBytes]byte) bool { return now != nil }, yield)
}

// Delta yields the blocks that differ.
func (f *FakeBackend) Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	return f.walkBlocks(ctx, base, target, from, func(old, now *[BlockBytes]byte) bool { return !equal(old, now) }, yield)
}

func equal(a, b *[BlockBytes]byte) bool {
	var zero [BlockBytes]byte
	if a == nil {
		a = &zero
	}
	if b == nil {
		b = &zero
	}
	return a == b || bytes.Equal(a[:], b[:])
}

func (f *FakeBackend) walkBlocks(ctx context.Context, base, target fsm.SnapshotID, from int64, want func(old, now *[BlockBytes]byte) bool, yield func(executor.Extent) bool) error {
	f.mu.Lock()
	if f.absent {
		f.mu.Unlock()
		return errAbsent
	}
	old, err := f.findSnapshot(base)
	now, err2 := f.findSnapshot(target)
	f.mu.Unlock()
	if err != nil || err2 != nil {
		return firstError(err, err2)
	}
	numbers := slices.Sorted(maps.Keys(old.content))
	for number := range now.content {
		if _, both := old.content[number]; !both {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		start, end := max(number*BlockBytes, from), min((number+1)*BlockBytes, max(old.size, now.size))
		if start >= end || !want(old.content[number], now.content[number]) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return &executor.InterruptedError{Offset: start, Cause: err}
		}
		if !yield(executor.Extent{Offset: start, Length: end - start}) {
			return nil
		}
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// countSnapshotEffect is countEffect by a snapshot's id.
func (f *FakeBackend) countSnapshotEffect(name string, id fsm.SnapshotID) error {
	if err := checkSnapshotID(id); err != nil {
		return err
	}
	return f.injectFailure(name, fsm.VolumeID(id))
}

func sameSize(id fsm.VolumeID, have, size int64) error {
	if have != size {
		return fsm.Reject(fsm.Incompatible, "the image of %s has %d bytes, not %d", id, have, size)
	}
	return nil
}

func checkSnapshotID(id fsm.SnapshotID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a snapshot's id", string(id))
	}
	return nil
}
