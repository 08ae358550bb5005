package backendtest

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
)

// CreateMetadata creates metadata; existing ones are kept.
func (r *FakeReplicator) CreateMetadata(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.steps["create-metadata"]++
	v := r.link.volume(id)
	if side := &v.sides[r.side]; side.fileRemoved {
		v.pair.Erase(r.side)
		side.fileRemoved = false
	}
	v.pair.CreateMetadata(r.side)
	return nil
}

// RemakeMetadata invalidates all content of the disk.
func (r *FakeReplicator) RemakeMetadata(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.steps["remake-metadata"]++
	v := r.link.volume(id)
	if s := v.pair.Observe(r.side); !s.Metadata.Exist || s.Disk > diskless {
		return errors.New("make the metadata anew: there are none, or the disk is attached")
	}
	v.pair.RemakeMetadata(r.side)
	return nil
}

// WipeMetadata removes metadata that were copied from the source.
func (r *FakeReplicator) WipeMetadata(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.steps["wipe-metadata"]++
	if v := r.link.volume(id); !v.pair.Observe(r.side).InKernel {
		v.pair.WipeMetadata(r.side)
	}
	return nil
}

// Attach attaches the disk.
func (r *FakeReplicator) Attach(_ context.Context, id fsm.VolumeID) error {
	v, s, _ := r.begin("attach", id) // an error is expected when the resource is not in the kernel yet
	defer r.link.mu.Unlock()
	if !s.Metadata.Exist || r.files[id].Volume == "" {
		return errors.New("attach: no metadata or no file")
	}
	v.sides[r.side].fileRemoved = false
	if s.Primary {
		r.steps["attach-primary"]++
	}
	r.link.change(v, func(p *drbdmodel.Pair) { p.Attach(r.side) })
	if v.pair.Observe(r.side).Disk <= diskless {
		return errors.New("attach: it can only attach to data with the current UUID")
	}
	return nil
}

// Detach detaches the disk.
func (r *FakeReplicator) Detach(_ context.Context, id fsm.VolumeID, _ bool) error {
	v, _, err := r.begin("detach", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
	case r.detachFails:
		return errors.New("detach: state change failed")
	default:
		r.detach(v)
	}
	return err
}

// SetDetachFails has the kernel refuse to detach a disk.
func (r *FakeReplicator) SetDetachFails(fails bool) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.detachFails = fails
}

// detach detaches the disk, or leaves it Failed while its helper is held. The caller holds mu.
func (r *FakeReplicator) detach(v *fakeVolume) {
	r.link.change(v, func(p *drbdmodel.Pair) {
		p.BeginDetach(r.side)
		if r.heldHelpers == 0 {
			p.EndDetach(r.side)
		}
	})
}

// Invalidate makes this replica be copied from its peer.
func (r *FakeReplicator) Invalidate(_ context.Context, id fsm.VolumeID) error {
	v, _, err := r.begin("invalidate", id)
	defer r.link.mu.Unlock()
	if err == nil {
		r.link.change(v, func(p *drbdmodel.Pair) { p.Invalidate(r.side) })
	}
	return err
}

// Resize does nothing.
func (r *FakeReplicator) Resize(_ context.Context, id fsm.VolumeID, _ int64, _ bool) error {
	_, _, err := r.begin("resize", id)
	r.link.mu.Unlock()
	return err
}

// Verify finds no difference.
func (r *FakeReplicator) Verify(_ context.Context, id fsm.VolumeID) error {
	_, _, err := r.begin("verify", id)
	r.link.mu.Unlock()
	return err
}
