package lvm

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Shrink zeroes what it cuts off, records the new size, and then reduces the logical volume: the
// pool keeps the blocks of what LVM reduces, and an extension would show them again.
func (p *Pool) Shrink(ctx context.Context, id fsm.VolumeID, size int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	if size <= 0 || size%sectorSize != 0 {
		return invalidSize(id, size)
	}
	done, state, err := p.lock.fresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := p.layers.checkNone(id); err != nil {
		return err
	}
	lv, current, err := p.findVolume(state, id)
	switch {
	case err != nil:
		return err
	case current < size:
		return fsm.Reject(fsm.Incompatible, "volume %s has %d bytes, fewer than %d", id, current, size)
	case current > size:
		if err := p.volumes.cutOff(ctx, state, lv, current, size); err != nil {
			return err
		}
	}
	return p.volumes.reduce(ctx, lv, roundUp(size, state.extentBytes))
}

// cutOff zeroes what a volume has beyond size bytes, up to the end of its last extent, and then
// records that size.
func (t *thinVolumes) cutOff(ctx context.Context, state *poolState, lv *logicalVolume, current, size int64) error {
	tail := executor.Extent{Offset: size, Length: lv.size - size}
	if err := t.zeroTail(ctx, lv.name, tail, state.chunkBytes); err != nil {
		return fmt.Errorf("shrink volume %s: %w", lv.name, err)
	}
	if err := t.recordSize(ctx, lv.name, current, size); err != nil {
		return fmt.Errorf("shrink volume %s: %w", lv.name, err)
	}
	return nil
}

// reduce makes a logical volume no larger than so many bytes, which are whole extents. That may be
// what an interrupted attempt left out.
func (t *thinVolumes) reduce(ctx context.Context, lv *logicalVolume, bytes int64) error {
	if lv.size <= bytes {
		return nil
	}
	if err := t.runChange(ctx, "lvreduce", "-f", "-L", fmt.Sprintf("%db", bytes), t.VG+"/"+lv.name); err != nil {
		return t.commandError("reduce", lv.name, err)
	}
	return nil
}
