package backendtest

import (
	"context"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

func (t *poolTools) SharesBlocks() bool { return !t.pool.config.FullCopies }

func (t *poolTools) CopyRate(ctx context.Context) (rate int64, err error) {
	err = t.process.read(ctx, effect{part: "pool", name: "copy-rate"}, func() error {
		if t.pool.absent {
			return errAbsent
		}
		rate = t.pool.config.Rate
		return nil
	})
	return rate, err
}

func (t *poolTools) ObserveSnapshot(ctx context.Context, id fsm.SnapshotID) (d executor.Device, err error) {
	if err := checkSnapshotID(id); err != nil {
		return d, err
	}
	p := t.pool
	err = t.process.read(ctx, effect{part: "pool", name: "observe-snapshot", snapshot: id}, func() error {
		if d = (executor.Device{Absent: p.absent}); p.absent {
			return nil
		}
		d.Unfinished = p.unfinishedSnapshots[id]
		if s, ok := p.snapshots[id]; ok {
			d.Exists, d.ReadOnly, d.Size = true, true, s.size
		}
		return nil
	})
	return d, err
}

func (t *poolTools) Allocated(ctx context.Context, id fsm.VolumeID) (bytes int64, err error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	p := t.pool
	err = t.process.read(ctx, effect{part: "pool", name: "allocated", volume: id}, func() error {
		switch {
		case p.absent:
			return errAbsent
		case p.images[id] == nil:
			return fsm.Reject(fsm.Precondition, "there is no image of %s", id)
		}
		bytes = int64(len(p.images[id].content)) * BlockBytes
		return nil
	})
	return bytes, err
}

func (t *poolTools) snapshotEffect(ctx context.Context, name string, id fsm.SnapshotID, source fsm.VolumeID, act func() error) error {
	if err := checkSnapshotID(id); err != nil {
		return err
	}
	return t.process.do(ctx, effect{part: "pool", name: name, volume: source, snapshot: id}, act)
}

func (t *poolTools) TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, progress executor.Progress) error {
	p := t.pool
	exists := false
	err := t.snapshotEffect(ctx, "take-snapshot-begin", id, source, func() (err error) {
		if err = p.check(); err != nil {
			return err
		}
		if _, exists = p.snapshots[id]; exists {
			return nil
		}
		if p.images[source] == nil {
			return fsm.Reject(fsm.Precondition, "there is no image of %s", source)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p.unfinishedSnapshots[id] = true
		return nil
	})
	if err != nil || exists {
		return err
	}
	copied, err := t.copy(ctx, effect{part: "pool", name: "copy", volume: source, snapshot: id}, fsm.Source{Volume: source}, 0, progress)
	if err != nil {
		return err
	}
	return t.snapshotEffect(ctx, "take-snapshot", id, source, func() error { return p.finishSnapshot(source, id, copied) })
}

// finishSnapshot gives a snapshot its name: with what was copied, or, in a pool that shares
// blocks, with what the source holds now. The lock is held.
func (p *Pool) finishSnapshot(source fsm.VolumeID, id fsm.SnapshotID, copied fakeSnapshot) error {
	if err := p.check(); err != nil {
		return err
	}
	if !p.config.FullCopies {
		img := p.images[source]
		if img == nil {
			return fsm.Reject(fsm.Precondition, "there is no image of %s", source)
		}
		copied = fakeSnapshot{img.size, maps.Clone(img.content)}
	}
	if _, exists := p.snapshots[id]; !exists {
		p.snapshots[id], p.replicas[id] = copied, p.world.replicaDisk(p.host, source)
	}
	delete(p.unfinishedSnapshots, id)
	return nil
}

func (t *poolTools) RemoveSnapshot(ctx context.Context, id fsm.SnapshotID) error {
	p := t.pool
	return t.snapshotEffect(ctx, "remove-snapshot", id, "", func() error {
		switch {
		case p.absent:
			return errAbsent
		case p.hanging:
			return errHangs
		}
		delete(p.snapshots, id)
		delete(p.replicas, id)
		delete(p.unfinishedSnapshots, id)
		return nil
	})
}

func (t *poolTools) CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, progress executor.Progress) error {
	p := t.pool
	exists := false
	err := t.volumeEffect(ctx, "create-from-begin", id, func() error {
		if p.images[id] != nil {
			exists = true
			return sameSize(id, p.images[id].size, size)
		}
		if err := p.checkSource(size, source, content); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p.unfinished[id] = true
		return nil
	})
	if err != nil || exists {
		return err
	}
	copied, err := t.copy(ctx, effect{part: "pool", name: "copy", volume: id, snapshot: source.Snapshot}, source, content, progress)
	if err != nil {
		return err
	}
	return t.volumeEffect(ctx, "create-from", id, func() error { return p.finishCopy(id, size, source, content, copied) })
}

// checkSource is why no volume can be made from a source. The lock is held.
func (p *Pool) checkSource(size int64, source fsm.Source, content int64) error {
	if err := p.check(); err != nil {
		return err
	}
	from, err := p.source(source)
	if err != nil {
		return err
	}
	if from = from.first(content); from.size > size {
		return fsm.Reject(fsm.OutOfRange, "the source has %d bytes, more than the %d of the volume", from.size, size)
	}
	return nil
}

// first is what the first bytes of a snapshot hold, 0: all of it.
func (s fakeSnapshot) first(content int64) fakeSnapshot {
	if content > 0 && content < s.size {
		return fakeSnapshot{content, s.content.truncated(content)}
	}
	return s
}

func (p *Pool) finishCopy(id fsm.VolumeID, size int64, source fsm.Source, content int64, copied fakeSnapshot) error {
	if err := p.checkSource(size, source, content); err != nil {
		return err
	}
	if !p.config.FullCopies {
		from, err := p.source(source)
		if err != nil {
			return err
		}
		copied = from.first(content)
	}
	if p.images[id] == nil {
		p.finishImage(id, &image{size: size, content: maps.Clone(copied.content)})
	}
	return nil
}

func (t *poolTools) Expand(ctx context.Context, id fsm.VolumeID, size int64) error {
	p := t.pool
	return t.volumeEffect(ctx, "expand", id, func() error {
		if err := p.check(); err != nil {
			return err
		}
		img := p.images[id]
		if img == nil {
			return fsm.Reject(fsm.Precondition, "there is no image of %s", id)
		}
		img.size = max(img.size, size)
		return nil
	})
}

// copy reads a source block by block, as it is when each is read; a pool that shares blocks copies
// nothing.
func (t *poolTools) copy(ctx context.Context, e effect, source fsm.Source, content int64, progress executor.Progress) (fakeSnapshot, error) {
	copied := fakeSnapshot{content: blocks{}}
	if !t.pool.config.FullCopies {
		return copied, ctx.Err()
	}
	total, next := int64(0), int64(-1)
	for done := int64(0); ; {
		more := false
		err := t.process.do(ctx, e, func() (err error) {
			more, total, err = t.pool.copyBlock(&copied, &next, source, content)
			return err
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || !more {
			return copied, err
		}
		if done += BlockBytes; progress != nil {
			progress(done, max(total, done))
		}
	}
}

// copyBlock copies the first block behind the one that was copied last. The lock is held.
func (p *Pool) copyBlock(copied *fakeSnapshot, last *int64, source fsm.Source, content int64) (more bool, total int64, err error) {
	if err := p.check(); err != nil {
		return false, 0, err
	}
	if p.fullData {
		return false, 0, errFull
	}
	from, err := p.source(source)
	if err != nil {
		return false, 0, err
	}
	from = from.first(content)
	copied.size, total = from.size, int64(len(from.content))*BlockBytes
	for _, number := range slices.Sorted(maps.Keys(from.content)) {
		if number > *last {
			copied.content[number], *last = from.content[number], number
			return true, total, nil
		}
	}
	return false, total, nil
}

func (t *poolTools) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	_, now, err := t.pair(ctx, target, target)
	if err != nil {
		return err
	}
	return now.extents(ctx, fakeSnapshot{}, from, func(_, now *[BlockBytes]byte) bool { return now != nil }, yield)
}

func (t *poolTools) Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	old, now, err := t.pair(ctx, base, target)
	if err != nil {
		return err
	}
	return now.extents(ctx, old, from, func(old, now *[BlockBytes]byte) bool { return !equal(old, now) }, yield)
}

// pair returns two snapshots of a pool that is present.
func (t *poolTools) pair(ctx context.Context, base, target fsm.SnapshotID) (old, now fakeSnapshot, err error) {
	err = t.process.read(ctx, effect{part: "pool", name: "map", snapshot: target}, func() (err error) {
		if t.pool.absent {
			return errAbsent
		}
		if old, err = t.pool.snapshot(base); err == nil {
			now, err = t.pool.snapshot(target)
		}
		return err
	})
	return old, now, err
}
