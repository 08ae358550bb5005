package backendtest

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
)

// CreateMetadata creates metadata; existing ones are kept.
func (r *FakeReplicator) CreateMetadata(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.steps["create-metadata"]++
	if d := r.disks[id]; d == nil || d.fileRemoved {
		r.disks[id] = &fakeDisk{}
	}
	return nil
}

// RemakeMetadata invalidates all content of the disk.
func (r *FakeReplicator) RemakeMetadata(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.steps["remake-metadata"]++
	if k := r.kernel[id]; r.disks[id] == nil || k != nil && k.disk > diskless {
		return errors.New("make the metadata anew: there are none, or the disk is attached")
	}
	r.disks[id] = &fakeDisk{content: r.disks[id].content}
	return nil
}

// WipeMetadata removes metadata that were copied from the source.
func (r *FakeReplicator) WipeMetadata(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.steps["wipe-metadata"]++
	if r.kernel[id] == nil {
		delete(r.disks, id)
	}
	return nil
}

// Attach attaches the disk.
func (r *FakeReplicator) Attach(_ context.Context, id fsm.VolumeID) error {
	_, _ = r.begin("attach", id) // an error is expected when the resource is not in the kernel yet
	defer r.link.mu.Unlock()
	d := r.disks[id]
	switch {
	case d == nil || r.files[id].Volume == "":
		return errors.New("attach: no metadata or no file")
	case r.kernel[id] == nil:
		r.kernel[id] = &fakeResource{disk: diskless, connection: standAlone}
	}
	k := r.kernel[id]
	d.fileRemoved = false
	switch {
	case k.disk > diskless:
		return nil
	case !d.consistent || d.uuid == 0:
		k.disk = inconsistent
	case d.outdated:
		k.disk = outdated
	default:
		k.disk = consistent
	}
	if k.connection >= connected { // it exchanges its state with its peer again
		p := r.peer().kernel[id]
		k.connection, p.connection = connecting, connecting
		if p.primary && p.disk == upToDate {
			d.consistent = false
		} else if k.primary {
			r.peer().disks[id].history = append(r.peer().disks[id].history, d.uuid)
			d.consistent, k.disk = false, inconsistent
			r.link.synchronise(id, r.peer(), r)
			return nil
		}
		r.link.reconnect(id)
	}
	return nil
}

// Detach detaches the disk.
func (r *FakeReplicator) Detach(_ context.Context, id fsm.VolumeID, _ bool) error {
	_, err := r.begin("detach", id)
	defer r.link.mu.Unlock()
	if err == nil {
		r.detach(id)
	}
	return err
}

func (r *FakeReplicator) detach(id fsm.VolumeID) {
	k := r.kernel[id]
	if k.disk > diskless && r.heldHelpers > 0 {
		k.disk = failed
		r.notify(id)
		return
	}
	r.finishDetach(id, k)
}

func (r *FakeReplicator) finishDetach(id fsm.VolumeID, k *fakeResource) {
	k.disk = diskless
	if p := r.peer().kernel[id]; k.connection >= connected && p != nil {
		p.peerDisk = diskless
		r.peer().notify(id)
	}
	r.notify(id)
}

// Invalidate makes this replica be copied from its peer.
func (r *FakeReplicator) Invalidate(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("invalidate", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return err
	case k.connection == connected:
		r.link.synchronise(id, r.peer(), r)
	case k.connection == standAlone && k.disk == inconsistent:
		r.disks[id].bitmapFull = true
	}
	return nil
}

// Resize does nothing.
func (r *FakeReplicator) Resize(_ context.Context, id fsm.VolumeID, _ int64) error {
	_, err := r.begin("resize", id)
	r.link.mu.Unlock()
	return err
}

// Verify finds no difference.
func (r *FakeReplicator) Verify(_ context.Context, id fsm.VolumeID) error {
	_, err := r.begin("verify", id)
	r.link.mu.Unlock()
	return err
}
