package lvm

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Observe returns the state of the volume and its block device. With the pool absent it still
// reports the block device, so that teardown works.
func (p *Pool) Observe(ctx context.Context, id fsm.VolumeID) (executor.Device, error) {
	var d executor.Device
	if err := checkID(id); err != nil {
		return d, err
	}
	state, err := p.recentState(ctx)
	switch {
	case isAbsent(err):
		d.Absent = true
	case err != nil:
		return d, err
	default:
		if err := state.fillDevice(string(id), &d); err != nil {
			return d, err
		}
	}
	return d, p.layers.fill(id, &d)
}

// Create creates the volume, checks that it is empty, and only then marks it ready.
func (p *Pool) Create(ctx context.Context, id fsm.VolumeID, size int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	return p.createOnce(ctx, id, size, func(state *poolState) error {
		return p.volumes.create(ctx, state, string(id), size)
	})
}

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
	return p.createOnce(ctx, id, size, func(state *poolState) error {
		from, dropTail, err := state.sourceFor(name, content, size)
		if err != nil {
			return err
		}
		if err := p.volumes.prepareCreate(ctx, state, string(id)); err != nil {
			return err
		}
		if source.Volume != "" {
			if err := p.layers.flush(source.Volume); err != nil {
				return err
			}
		}
		c := thinCopy{name: string(id), from: name, permission: "-prw", size: size, dropTail: dropTail, chunk: state.chunkBytes}
		if from.size < size {
			c.minSize = size
		}
		return p.volumes.copy(ctx, &c)
	})
}

// createOnce calls create under the lock, unless the volume exists already.
func (p *Pool) createOnce(ctx context.Context, id fsm.VolumeID, size int64, create func(state *poolState) error) error {
	if size <= 0 || size%sectorSize != 0 {
		return invalidSize(id, size)
	}
	done, state, err := p.lock.fresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	if exists, err := state.checkExisting(id, size); exists || err != nil {
		return err
	}
	return create(state)
}

func invalidSize(id fsm.VolumeID, size int64) error {
	return fsm.Reject(fsm.Invalid, "volume %s cannot have %d bytes: it takes a multiple of %d", id, size, sectorSize)
}

// Expand extends the logical volume, then its size tag, then its block device if it has one.
func (p *Pool) Expand(ctx context.Context, id fsm.VolumeID, size int64) error {
	if err := checkID(id); err != nil {
		return err
	}
	if size%sectorSize != 0 {
		return invalidSize(id, size)
	}
	done, state, err := p.lock.fresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	lv, current, err := p.findVolume(state, id)
	if err != nil {
		return err
	}
	if current < size {
		if err := p.volumes.extendVolume(ctx, lv, current, size); err != nil {
			return err
		}
	}
	return p.layers.grow(ctx, state, lv, max(current, size))
}

// Remove removes the volume and what an interrupted Create left. A missing volume is no error.
func (p *Pool) Remove(ctx context.Context, id fsm.VolumeID) error {
	if err := checkID(id); err != nil {
		return err
	}
	done, state, err := p.lock.fresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := p.layers.checkNone(id); err != nil {
		return err
	}
	if state, err = p.volumes.removeLeftovers(ctx, state, string(id)); err != nil {
		return err
	}
	return p.volumes.remove(ctx, state, string(id))
}

// checkExisting reports whether the volume exists already; one of another size is refused.
func (s *poolState) checkExisting(id fsm.VolumeID, size int64) (bool, error) {
	lv, current, err := s.findReady(string(id))
	switch {
	case err != nil || lv == nil:
		return false, err
	case current != size:
		return false, fsm.Reject(fsm.Incompatible, "volume %s has %d bytes, not %d", id, current, size)
	}
	return true, nil
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
func (s *poolState) sourceFor(name string, content, size int64) (from *logicalVolume, dropTail executor.Extent, err error) {
	from, sourceSize, err := s.findReady(name)
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
