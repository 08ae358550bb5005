package lvm

import (
	"context"
	"fmt"
	"math"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Map yields where the snapshot has blocks allocated in the pool.
func (p *Pool) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	_, size, err := p.readySnapshot(ctx, target)
	if err != nil || from >= size {
		return err
	}
	if err := p.mapRuns.read(ctx, snapshotPair{target: target}, from, p.findExtents, yield); err != nil {
		return fmt.Errorf("map %s: %w", target, err)
	}
	return nil
}

// Delta yields where two snapshots do not have the same block of the pool.
//
// It compares what thin_dump prints of each, and does not use thin_delta: its versions 1.0.0 to
// 1.0.4 join ranges that are adjacent in the volume but not in the pool, and then report different
// blocks as the same; and a host's package does not reliably tell which version it contains.
func (p *Pool) Delta(ctx context.Context, base, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	_, oldSize, err := p.readySnapshot(ctx, base)
	if err != nil {
		return err
	}
	_, size, err := p.readySnapshot(ctx, target)
	if err != nil || base == target || from >= max(oldSize, size) {
		return err
	}
	if err := p.mapRuns.read(ctx, snapshotPair{base, target}, from, p.findExtents, yield); err != nil {
		return fmt.Errorf("compare %s with %s: %w", target, base, err)
	}
	return nil
}

// readySnapshot returns a finished snapshot and its size in bytes.
func (p *Pool) readySnapshot(ctx context.Context, id fsm.SnapshotID) (*logicalVolume, int64, error) {
	if err := checkSnapshotID(id); err != nil {
		return nil, 0, err
	}
	v, err := p.recentState(ctx)
	if err != nil {
		return nil, 0, err
	}
	return p.findSnapshot(v, id)
}

func (p *Pool) findSnapshot(v *poolState, id fsm.SnapshotID) (*logicalVolume, int64, error) {
	lv, size, err := v.findReady(string(id))
	if err == nil && lv == nil {
		err = fsm.Reject(fsm.Precondition, "there is no snapshot %s in pool %s", id, p.name())
	}
	return lv, size, err
}

// snapshotPair is what is compared; without a base, the target alone is mapped.
type snapshotPair struct{ base, target fsm.SnapshotID }

func (r snapshotPair) ids() []fsm.SnapshotID {
	if r.base == "" {
		return []fsm.SnapshotID{r.target}
	}
	return []fsm.SnapshotID{r.base, r.target}
}

// findExtents finds all extents of a pair from an offset on, with one run of the tools.
func (p *Pool) findExtents(ctx context.Context, r snapshotPair, from int64, yield func(executor.Extent) error) error {
	before, err := p.thinDevicesOf(ctx, r, p.states.get)
	if err != nil {
		return err
	}
	pool, _, err := p.poolDevice()
	if err != nil {
		return err
	}
	return p.withMetadataSnap(ctx, pool, func(device string) error {
		// LVM reuses a thin id once its device is removed. A device that had the id before the
		// metadata snapshot was reserved, and has it now, also had it in the metadata snapshot.
		current, err := p.thinDevicesOf(ctx, r, p.states.refresh)
		if err != nil {
			return err
		}
		if !current.same(before) {
			return fsm.Reject(fsm.Busy, "a snapshot of pool %s changed while its metadata was reserved", p.name())
		}
		return p.compareDumps(ctx, device, current, from, yield)
	})
}

// thinDevices are the thin devices of a snapshot pair, with what is needed to convert their blocks
// to bytes.
type thinDevices struct {
	ids         []uint64
	uuids       []string
	chunk, size int64
}

func (a *thinDevices) same(b *thinDevices) bool {
	for i := range a.ids {
		if a.ids[i] != b.ids[i] || a.uuids[i] != b.uuids[i] {
			return false
		}
	}
	return len(a.ids) == len(b.ids)
}

func (p *Pool) thinDevicesOf(ctx context.Context, r snapshotPair, read func(context.Context) (*poolState, error)) (*thinDevices, error) {
	v, err := p.verifyIdentity(read(ctx))
	if err != nil {
		return nil, err
	}
	found := &thinDevices{chunk: v.chunkBytes}
	for _, id := range r.ids() {
		lv, size, err := p.findSnapshot(v, id)
		if err != nil {
			return nil, err
		}
		found.ids, found.uuids = append(found.ids, lv.thinID), append(found.uuids, lv.uuid)
		found.size = max(found.size, size)
	}
	return found, nil
}

// compareDumps reads the dumps side by side and yields, in bytes, where they do not map to the
// same block of the pool; of a single dump, where it maps any.
func (p *Pool) compareDumps(ctx context.Context, device string, t *thinDevices, from int64, yield func(executor.Extent) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var dumps []*thinDump
	for _, id := range t.ids {
		dumps = append(dumps, p.tools.startDump(ctx, device, id))
	}
	defer func() {
		cancel()
		for _, d := range dumps {
			d.wait() // the metadata snapshot must not be released while they read it
		}
	}()
	return mergeDumps(dumps, t.chunk, max(from, 0), t.size, yield)
}

// mergeDumps does the work of compareDumps on dumps that are already running.
func mergeDumps(dumps []*thinDump, chunk, from, size int64, yield func(executor.Extent) error) error {
	last := (size + chunk - 1) / chunk // the volume's size need not be a multiple of the chunk size
	for at := from / chunk; at < last; {
		end := last
		for _, d := range dumps {
			if err := d.advance(at); err != nil {
				return err
			}
			end = min(end, d.sameUntil(at))
		}
		if start := max(at*chunk, from); blocksDiffer(dumps, at) && start < size {
			if err := yield(executor.Extent{Offset: start, Length: min(end*chunk, size) - start}); err != nil {
				return err
			}
		}
		at = end
	}
	for _, d := range dumps { // read to the end: every line must parse, and each dump must say that it is complete
		if err := d.advance(math.MaxInt64); err != nil {
			return err
		}
	}
	return nil
}

// blocksDiffer reports whether the dumps map one block of the volume to different blocks of the
// pool.
func blocksDiffer(dumps []*thinDump, at int64) bool {
	first, mapped := dumps[0].poolBlock(at)
	if len(dumps) == 1 {
		return mapped
	}
	second, both := dumps[1].poolBlock(at)
	return mapped != both || first != second
}
