package lvm

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.SnapshotBackend = (*Pool)(nil)

// SharesBlocks returns true: thin snapshots share blocks.
func (p *Pool) SharesBlocks() bool { return true }

// ObserveSnapshot returns whether the snapshot exists and is finished.
func (p *Pool) ObserveSnapshot(ctx context.Context, id fsm.SnapshotID) (executor.Device, error) {
	var d executor.Device
	if err := checkSnapshotID(id); err != nil {
		return d, err
	}
	state, err := p.recentState(ctx)
	if isAbsent(err) {
		d.Absent = true
		return d, nil //nolint:nilerr // an absent pool is an observation (S12)
	}
	if err == nil {
		err = state.fillDevice(string(id), &d)
	}
	d.ReadOnly = d.Exists
	return d, err
}

// Allocated returns how many bytes the pool has allocated for the volume, including blocks that it
// shares with snapshots.
func (p *Pool) Allocated(ctx context.Context, id fsm.VolumeID) (int64, error) {
	if err := checkID(id); err != nil {
		return 0, err
	}
	done, state, err := p.lock.recent(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	lv, size, err := p.findVolume(state, id)
	if err != nil {
		return 0, err
	}
	if err := p.activateLV(ctx, lv.name); err != nil {
		return 0, err
	}
	bytes, err := p.allocatedBytes(lv.name)
	return min(bytes, size), err
}

// TakeSnapshot creates the snapshot and marks it ready only when it is known to be complete: after
// a crash LVM may create an interrupted one at the next boot, with the content that the volume has
// then.
func (p *Pool) TakeSnapshot(ctx context.Context, source fsm.VolumeID, id fsm.SnapshotID, _ executor.Progress) error {
	if err := errors.Join(checkID(source), checkSnapshotID(id)); err != nil {
		return err
	}
	done, state, err := p.lock.fresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	if current, _, err := state.findReady(string(id)); current != nil || err != nil {
		return err
	}
	from, size, err := p.findVolume(state, source)
	if err != nil {
		return err
	}
	if err := p.volumes.prepareCreate(ctx, state, string(id)); err != nil {
		return err
	}
	if err := p.layers.flush(source); err != nil {
		return err
	}
	return p.volumes.copy(ctx, &thinCopy{name: string(id), from: from.name, permission: "-pr", size: size})
}

// RemoveSnapshot removes the snapshot and what an interrupted TakeSnapshot left.
func (p *Pool) RemoveSnapshot(ctx context.Context, id fsm.SnapshotID) error {
	if err := checkSnapshotID(id); err != nil {
		return err
	}
	done, state, err := p.lock.fresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	return p.volumes.remove(ctx, state, string(id))
}
