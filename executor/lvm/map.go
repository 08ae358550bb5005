package lvm

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Map yields where the snapshot has blocks allocated in the pool.
func (p *Pool) Map(ctx context.Context, target fsm.SnapshotID, from int64, yield func(executor.Extent) bool) error {
	_, size, err := p.maps.ready(ctx, target)
	if err != nil || from >= size {
		return err
	}
	if err := p.maps.read(ctx, snapshotPair{target: target}, from, yield); err != nil {
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
	_, oldSize, err := p.maps.ready(ctx, base)
	if err != nil {
		return err
	}
	_, size, err := p.maps.ready(ctx, target)
	if err != nil || base == target || from >= max(oldSize, size) {
		return err
	}
	if err := p.maps.read(ctx, snapshotPair{base, target}, from, yield); err != nil {
		return fmt.Errorf("compare %s with %s: %w", target, base, err)
	}
	return nil
}

// snapshotMaps finds which blocks a snapshot has allocated, and where two snapshots differ.
type snapshotMaps struct {
	*thinPool
	metadata *metadataSnap
	runs     *mapRunCache
}

// ready returns a finished snapshot and its size in bytes.
func (m *snapshotMaps) ready(ctx context.Context, id fsm.SnapshotID) (*logicalVolume, int64, error) {
	if err := checkSnapshotID(id); err != nil {
		return nil, 0, err
	}
	state, err := m.recentState(ctx)
	if err != nil {
		return nil, 0, err
	}
	return m.find(state, id)
}

func (m *snapshotMaps) find(state *poolState, id fsm.SnapshotID) (*logicalVolume, int64, error) {
	lv, size, err := state.findReady(string(id))
	if err == nil && lv == nil {
		err = fsm.Reject(fsm.Precondition, "there is no snapshot %s in pool %s", id, m.name())
	}
	return lv, size, err
}

// snapshotPair is what is compared; without a base, the target alone is mapped.
type snapshotPair struct{ base, target fsm.SnapshotID }

func (p snapshotPair) ids() []fsm.SnapshotID {
	if p.base == "" {
		return []fsm.SnapshotID{p.target}
	}
	return []fsm.SnapshotID{p.base, p.target}
}

// read yields the extents of a pair from an offset on.
func (m *snapshotMaps) read(ctx context.Context, pair snapshotPair, from int64, yield func(executor.Extent) bool) error {
	return m.runs.read(ctx, pair, from, m.findExtents, yield)
}

// findExtents finds all extents of a pair from an offset on, with one run of the tools.
func (m *snapshotMaps) findExtents(ctx context.Context, pair snapshotPair, from int64, yield func(executor.Extent) error) error {
	before, err := m.thinDevicesOf(ctx, pair, m.states.get)
	if err != nil {
		return err
	}
	pool, _, err := m.poolDevice()
	if err != nil {
		return err
	}
	return m.metadata.with(ctx, pool, func(device string) error {
		// LVM reuses a thin id once its device is removed. A device that had the id before the
		// metadata snapshot was reserved, and has it now, also had it in the metadata snapshot.
		current, err := m.thinDevicesOf(ctx, pair, m.states.refresh)
		if err != nil {
			return err
		}
		if !current.same(before) {
			return fsm.Reject(fsm.Busy, "a snapshot of pool %s changed while its metadata was reserved", m.name())
		}
		return m.tools.compareDumps(ctx, device, current, from, yield)
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

func (m *snapshotMaps) thinDevicesOf(ctx context.Context, pair snapshotPair, read func(context.Context) (*poolState, error)) (*thinDevices, error) {
	state, err := m.verifyIdentity(read(ctx))
	if err != nil {
		return nil, err
	}
	found := &thinDevices{chunk: state.chunkBytes}
	for _, id := range pair.ids() {
		lv, size, err := m.find(state, id)
		if err != nil {
			return nil, err
		}
		found.ids, found.uuids = append(found.ids, lv.thinID), append(found.uuids, lv.uuid)
		found.size = max(found.size, size)
	}
	return found, nil
}
