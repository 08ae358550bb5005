package backendtest

import (
	"bytes"
	"context"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.SnapshotBackend = (*Fake)(nil)

// BlockSize is the block that the fake keeps content in, in bytes.
const BlockSize = 4096

// blocks is content by block number; what is not there reads as zero. A block is
// replaced whole, so copies of the map share blocks.
type blocks map[int64]*[BlockSize]byte

// snapshot is a cut that is kept.
type snapshot struct {
	size    int64
	content blocks
}

// Write puts bytes into a volume, as a writer on its device does.
func (f *Fake) Write(id fsm.VolumeID, at int64, data []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.content[id] == nil {
		f.content[id] = blocks{}
	}
	for len(data) > 0 {
		number, in := at/BlockSize, at%BlockSize
		fresh := &[BlockSize]byte{}
		if old := f.content[id][number]; old != nil {
			*fresh = *old
		}
		n := copy(fresh[in:], data)
		f.content[id][number] = fresh
		at, data = at+int64(n), data[n:]
	}
}

// Read is a volume's whole content.
func (f *Fake) Read(id fsm.VolumeID) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.content[id].bytes(f.images[id])
}

// ReadSnapshot is a snapshot's whole content; nil when it is not there.
func (f *Fake) ReadSnapshot(id fsm.SnapshotID) []byte {
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
		if at := number * BlockSize; at < size {
			copy(all[at:], block[:])
		}
	}
	return all
}

// Snapshots counts what is there, finished or not.
func (f *Fake) Snapshots() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.snapshots) + len(f.tmpSnapshots)
}

// InterruptCut leaves what a crash in the middle of Cut leaves.
func (f *Fake) InterruptCut(id fsm.SnapshotID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tmpSnapshots[id] = true
}

// LoseSnapshot makes a snapshot vanish, as a careless operator does.
func (f *Fake) LoseSnapshot(id fsm.SnapshotID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.snapshots, id)
}

// SharesBlocks is true unless SetCopies said otherwise.
func (f *Fake) SharesBlocks() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.wholly
}

// CopyRate is what SetRate said, or 1 GiB a second.
func (f *Fake) CopyRate(context.Context) (int64, error) {
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

// ObserveSnapshot looks at one snapshot.
func (f *Fake) ObserveSnapshot(_ context.Context, id fsm.SnapshotID) (executor.Device, error) {
	if err := checkSnapshotID(id); err != nil {
		return executor.Device{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.effects["observe-snapshot"+string(id)]++
	if f.absent {
		return executor.Device{Absent: true}, nil
	}
	d := executor.Device{Unfinished: f.tmpSnapshots[id]}
	if s, ok := f.snapshots[id]; ok {
		d.Exists, d.ReadOnly, d.Size = true, true, s.size
	}
	return d, nil
}

// Allocated counts blocks.
func (f *Fake) Allocated(_ context.Context, id fsm.VolumeID) (int64, error) {
	if err := f.effect("", id); err != nil {
		return 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.images[id]; !ok {
		return 0, fsm.Reject(fsm.Precondition, "there is no image of %s", id)
	}
	return int64(len(f.content[id])) * BlockSize, nil
}

// TakeSnapshot keeps the content as it is now.
func (f *Fake) TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, progress executor.Progress) error {
	if err := f.snapshotEffect("cut", id); err != nil {
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
	if err := f.copies(ctx, f.content[source], progress); err != nil {
		return err
	}
	delete(f.tmpSnapshots, id)
	f.snapshots[id] = snapshot{size, maps.Clone(f.content[source])}
	f.effects["cut"+string(id)]++
	return nil
}

// copies tells of a copy's progress where the pool copies. Called with the lock.
func (f *Fake) copies(ctx context.Context, content blocks, progress executor.Progress) error {
	total := int64(len(content)) * BlockSize
	for done := int64(0); f.wholly && done < total; {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done += BlockSize; progress != nil {
			progress(done, total)
		}
	}
	return ctx.Err()
}

// RemoveSnapshot removes it.
func (f *Fake) RemoveSnapshot(_ context.Context, id fsm.SnapshotID) error {
	if err := f.snapshotEffect("remove-snapshot", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.snapshots[id]; ok {
		f.effects["remove-snapshot"+string(id)]++
	}
	delete(f.snapshots, id)
	delete(f.tmpSnapshots, id)
	return nil
}

// CreateFrom makes an image with a source's content.
func (f *Fake) CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, progress executor.Progress) error {
	if err := f.effect("create-from", id); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if have, ok := f.images[id]; ok {
		return sameSize(id, have, size)
	}
	from, err := f.source(source)
	if content > 0 && content < from.size {
		from = snapshot{content, from.content.first(content)}
	}
	switch {
	case err != nil:
		return err
	case from.size > size:
		return fsm.Reject(fsm.OutOfRange, "the source has %d bytes, more than the %d of the volume", from.size, size)
	}
	if err := f.copies(ctx, from.content, progress); err != nil {
		return err
	}
	delete(f.tmp, id)
	f.images[id], f.content[id] = size, maps.Clone(from.content)
	f.effects["create-from"+string(id)]++
	return nil
}

// first is the content without what is at an offset or behind it.
func (b blocks) first(size int64) blocks {
	kept := blocks{}
	for number, block := range b {
		switch at := number * BlockSize; {
		case at+BlockSize <= size:
			kept[number] = block
		case at < size:
			part := &[BlockSize]byte{}
			copy(part[:], block[:size-at])
			kept[number] = part
		}
	}
	return kept
}

func (f *Fake) source(source fsm.Source) (snapshot, error) {
	if source.Volume != "" {
		size, ok := f.images[source.Volume]
		if !ok {
			return snapshot{}, fsm.Reject(fsm.Precondition, "there is no image of %s", source.Volume)
		}
		return snapshot{size, f.content[source.Volume]}, nil
	}
	return f.kept(source.Snapshot)
}

func (f *Fake) kept(id fsm.SnapshotID) (snapshot, error) {
	if err := checkSnapshotID(id); err != nil {
		return snapshot{}, err
	}
	s, ok := f.snapshots[id]
	if !ok {
		return snapshot{}, fsm.Reject(fsm.Precondition, "there is no file of %s", id)
	}
	return s, nil
}

// Expand makes an image, and its device, larger.
func (f *Fake) Expand(_ context.Context, id fsm.VolumeID, size int64) error {
	if err := f.effect("grow", id); err != nil {
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

// Map yields the blocks that are there.
func (f *Fake) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	return f.walk(ctx, target, target, from, func(_, now *[BlockSize]byte) bool { return now != nil }, yield)
}

// Delta yields the blocks that differ.
func (f *Fake) Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	return f.walk(ctx, base, target, from, func(old, now *[BlockSize]byte) bool { return !equal(old, now) }, yield)
}

func equal(a, b *[BlockSize]byte) bool {
	var zero [BlockSize]byte
	if a == nil {
		a = &zero
	}
	if b == nil {
		b = &zero
	}
	return a == b || bytes.Equal(a[:], b[:])
}

func (f *Fake) walk(ctx context.Context, base, target fsm.SnapshotID, from int64, want func(old, now *[BlockSize]byte) bool, yield func(executor.Extent) bool) error {
	f.mu.Lock()
	if f.absent {
		f.mu.Unlock()
		return errAbsent
	}
	old, err := f.kept(base)
	now, err2 := f.kept(target)
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
		start, end := max(number*BlockSize, from), min((number+1)*BlockSize, max(old.size, now.size))
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

// snapshotEffect asks whether it fails, by the snapshot's id.
func (f *Fake) snapshotEffect(name string, id fsm.SnapshotID) error {
	if err := checkSnapshotID(id); err != nil {
		return err
	}
	return f.mayFail(name, fsm.VolumeID(id))
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
