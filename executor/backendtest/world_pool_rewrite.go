package backendtest

import (
	"context"
	"maps"

	"github.com/holdfast-storage/holdfast/fsm"
)

func (t *poolTools) Revert(ctx context.Context, id fsm.VolumeID, to fsm.SnapshotID) error {
	p := t.pool
	err := t.volumeEffect(ctx, "revert-begin", id, func() error {
		if _, err := p.checkRevert(id, to); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		p.unfinished[id] = true
		return nil
	})
	if err != nil {
		return err
	}
	source := fsm.Source{Snapshot: to}
	if _, err := t.copy(ctx, effect{part: "pool", name: "copy", volume: id, snapshot: to}, source, 0, nil); err != nil {
		return err
	}
	return t.volumeEffect(ctx, "revert", id, func() error {
		from, err := p.checkRevert(id, to)
		if err != nil {
			return err
		}
		p.revertImage(id, to, from)
		return nil
	})
}

// checkRevert returns what an image is reverted to. The lock is held.
func (p *Pool) checkRevert(id fsm.VolumeID, to fsm.SnapshotID) (fakeSnapshot, error) {
	if err := p.check(); err != nil {
		return fakeSnapshot{}, err
	}
	if _, err := p.inactiveImage(id); err != nil {
		return fakeSnapshot{}, err
	}
	return p.snapshot(to)
}

// revertImage puts a new image in the place of the old one, with the metadata of its replica that the
// snapshot has. The lock is held.
func (p *Pool) revertImage(id fsm.VolumeID, to fsm.SnapshotID, from fakeSnapshot) {
	fresh := &image{size: from.size, content: maps.Clone(from.content), opened: p.images[id].opened}
	delete(p.images, id)
	p.world.revertReplica(p.host, id, p.replicas[to])
	p.finishImage(id, fresh)
}

func (t *poolTools) Shrink(ctx context.Context, id fsm.VolumeID, size int64) error {
	p := t.pool
	return t.volumeEffect(ctx, "shrink", id, func() error {
		if err := p.check(); err != nil {
			return err
		}
		img, err := p.inactiveImage(id)
		if err == nil {
			err = checkShrink(id, img.size, size)
		}
		if err != nil || img.size == size {
			return err
		}
		img.size, img.content = size, img.content.truncated(size)
		maps.DeleteFunc(img.unsynced, func(number int64, _ *[BlockBytes]byte) bool { return number*BlockBytes >= size })
		p.world.cutMetadata(p.host, id)
		return nil
	})
}

// inactiveImage returns an image that may be replaced or cut. The lock is held.
func (p *Pool) inactiveImage(id fsm.VolumeID) (*image, error) {
	img := p.images[id]
	switch {
	case img == nil:
		return nil, fsm.Reject(fsm.Precondition, "there is no image of %s", id)
	case p.host.devices[id] != nil:
		return nil, fsm.Reject(fsm.InUse, "the image of %s is active", id)
	}
	return img, nil
}
