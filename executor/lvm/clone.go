package lvm

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// CreateFrom creates the volume sharing the source's blocks. A source that is a volume is copied
// as it is now: the caller has frozen what must be frozen (S19).
func (p *Pool) CreateFrom(ctx context.Context, id fsm.VolumeID, size int64, source fsm.Source, content int64, _ executor.Progress) error {
	if err := checkID(id); err != nil {
		return err
	}
	name, err := sourceName(source)
	if err != nil {
		return err
	}
	if size <= 0 || size%sectorSize != 0 {
		return fsm.Reject(fsm.Invalid, "volume %s cannot have %d bytes: it takes a multiple of %d", id, size, sectorSize)
	}
	done, v, err := p.lockFresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	if exists, err := v.checkExisting(id, size); exists || err != nil {
		return err
	}
	from, dropTail, err := v.sourceFor(name, content, size)
	if err != nil {
		return err
	}
	if err := p.prepareCreate(ctx, v, string(id)); err != nil {
		return err
	}
	if source.Volume != "" {
		if err := p.flush(source.Volume); err != nil {
			return err
		}
	}
	c := thinCopy{name: string(id), from: name, permission: "-prw", size: size, dropTail: dropTail, chunk: v.chunkBytes}
	if from.size < size {
		c.minSize = size
	}
	return p.createThinCopy(ctx, &c)
}

func sourceName(source fsm.Source) (string, error) {
	if source.Volume != "" {
		return string(source.Volume), checkID(source.Volume)
	}
	return string(source.Snapshot), checkSnapshotID(source.Snapshot)
}

// sourceFor returns the source, when a volume of size bytes can hold what is copied of it, and the
// extent of it that is not copied. Nothing can be written beyond a volume's size, so a larger
// volume reads as zero there.
func (v *poolState) sourceFor(name string, content, size int64) (from *logicalVolume, dropTail executor.Extent, err error) {
	from, sourceSize, err := v.findReady(name)
	taken := sourceSize
	if content > 0 {
		taken = min(content, sourceSize)
	}
	switch {
	case err != nil:
		return nil, dropTail, err
	case from == nil:
		return nil, dropTail, fsm.Reject(fsm.Precondition, "there is no %s in the pool", name)
	case taken > size:
		return nil, dropTail, fsm.Reject(fsm.OutOfRange, "the source %s has %d bytes, more than the %d of the volume", name, taken, size)
	case taken < sourceSize:
		dropTail = executor.Extent{Offset: taken, Length: from.size - taken}
	}
	return from, dropTail, nil
}

// Expand extends the logical volume, then its size tag, then its block device if it has one.
func (p *Pool) Expand(ctx context.Context, id fsm.VolumeID, size int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	if size%sectorSize != 0 {
		return fsm.Reject(fsm.Invalid, "volume %s cannot have %d bytes: it takes a multiple of %d", id, size, sectorSize)
	}
	done, v, err := p.lockFresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	lv, current, err := v.findReady(string(id))
	if err != nil {
		return err
	}
	if lv == nil {
		return fsm.Reject(fsm.Precondition, "there is no volume %s in pool %s", id, p.name())
	}
	if current < size {
		if err := p.extendVolume(ctx, lv, current, size); err != nil {
			return err
		}
	}
	return p.growLayer(ctx, v, lv, max(current, size))
}

func (p *Pool) extendVolume(ctx context.Context, lv *logicalVolume, current, size int64) error {
	if lv.size < size {
		if err := p.extend(ctx, lv.name, size); err != nil {
			return err
		}
	}
	err := p.runChange(ctx, "lvchange", "--deltag", sizeTag(current), "--addtag", sizeTag(size), p.VG+"/"+lv.name)
	if err != nil {
		return fmt.Errorf("grow volume %s: say its size: %w", lv.name, err)
	}
	return nil
}

func (p *Pool) growLayer(ctx context.Context, v *poolState, lv *logicalVolume, size int64) error {
	layerDev, err := p.kernel.device(p.layerName(fsm.VolumeID(lv.name)))
	if err != nil || layerDev == nil {
		return err
	}
	return p.ensureLayer(ctx, v, lv, size, layerDev.readOnly)
}
