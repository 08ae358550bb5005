package lvm

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// CreateFrom makes the volume share the source's blocks. A source that is a volume is
// taken as it is now: the caller has frozen what must be frozen (S19).
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
	done, v, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if there, err := v.sameVolume(id, size); there || err != nil {
		return err
	}
	from, tail, err := v.fitting(name, content, size)
	if err != nil {
		return err
	}
	if err := p.makeRoom(ctx, v, string(id)); err != nil {
		return err
	}
	if source.Volume != "" {
		if err := p.flush(source.Volume); err != nil {
			return err
		}
	}
	made := copied{name: string(id), from: name, permission: "-prw", size: size, tail: tail, chunk: v.chunk}
	if from.size < size {
		made.room = size
	}
	return p.share(ctx, &made)
}

func sourceName(source fsm.Source) (string, error) {
	if source.Volume != "" {
		return string(source.Volume), checkID(source.Volume)
	}
	return string(source.Snapshot), checkSnapshotID(source.Snapshot)
}

// fitting is the source, when a volume of so many bytes can hold what is taken of it,
// and what of it is not taken. Beyond a volume's bytes nothing can be written, so that a
// larger volume reads as zero there.
func (v *view) fitting(name string, content, size int64) (from *volume, tail executor.Extent, err error) {
	from, have, err := v.ready(name)
	taken := have
	if content > 0 {
		taken = min(content, have)
	}
	switch {
	case err != nil:
		return nil, tail, err
	case from == nil:
		return nil, tail, fsm.Reject(fsm.Precondition, "there is no %s in the pool", name)
	case taken > size:
		return nil, tail, fsm.Reject(fsm.OutOfRange, "the source %s has %d bytes, more than the %d of the volume", name, taken, size)
	case taken < have:
		tail = executor.Extent{Offset: taken, Length: from.size - taken}
	}
	return from, tail, nil
}

// Expand makes the volume larger, then its tag, then its block device if it has one.
func (p *Pool) Expand(ctx context.Context, id fsm.VolumeID, size int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	if size%sectorSize != 0 {
		return fsm.Reject(fsm.Invalid, "volume %s cannot have %d bytes: it takes a multiple of %d", id, size, sectorSize)
	}
	done, v, err := p.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	lv, have, err := v.ready(string(id))
	if err != nil {
		return err
	}
	if lv == nil {
		return fsm.Reject(fsm.Precondition, "there is no volume %s in pool %s", id, p.name())
	}
	if have < size {
		if err := p.grow(ctx, lv, have, size); err != nil {
			return err
		}
	}
	return p.growLayer(ctx, v, lv, max(have, size))
}

func (p *Pool) grow(ctx context.Context, lv *volume, have, size int64) error {
	if lv.size < size {
		if err := p.lengthen(ctx, lv.name, size); err != nil {
			return err
		}
	}
	err := p.changed(ctx, "lvchange", "--deltag", sizeTag(have), "--addtag", sizeTag(size), p.VG+"/"+lv.name)
	if err != nil {
		return fmt.Errorf("grow volume %s: say its size: %w", lv.name, err)
	}
	return nil
}

func (p *Pool) growLayer(ctx context.Context, v *view, lv *volume, size int64) error {
	on, err := p.kernel.device(p.layerName(fsm.VolumeID(lv.name)))
	if err != nil || on == nil {
		return err
	}
	return p.putLayer(ctx, v, lv, size, on.readOnly)
}
