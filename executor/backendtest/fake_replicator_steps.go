package backendtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Configure stores the resource's file.
func (r *FakeReplicator) Configure(_ context.Context, f executor.ResourceConfig) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.files[f.Volume] = f
	r.steps["configure"]++
	return nil
}

// Adjust does nothing.
func (r *FakeReplicator) Adjust(_ context.Context, id fsm.VolumeID) error {
	_, err := r.begin("adjust", id)
	r.link.mu.Unlock()
	return err
}

// RemoveConfig removes the file. The metadata stay as long as the backing device: the next one
// under the same id gets its own.
func (r *FakeReplicator) RemoveConfig(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if r.kernel[id] != nil {
		return fsm.Reject(fsm.Busy, "the kernel has %s", id)
	}
	delete(r.files, id)
	if d := r.disks[id]; d != nil {
		d.fileRemoved = true
	}
	return nil
}

// Connect starts waiting for the peer.
func (r *FakeReplicator) Connect(_ context.Context, id fsm.VolumeID, discard bool) error {
	k, err := r.begin("connect", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return err
	case k.connection > standAlone:
		return nil
	case discard && k.primary:
		return fsm.Reject(fsm.Precondition, "a primary discards nothing")
	}
	k.connection, k.discard = connecting, discard
	r.link.reconnect(id)
	return nil
}

// Disconnect ends the connection, always with force.
func (r *FakeReplicator) Disconnect(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("disconnect", id)
	defer r.link.mu.Unlock()
	if err == nil {
		r.link.disconnect(id)
		k.connection, k.discard = standAlone, false
	}
	return err
}

// NewUUID creates the first current UUID on both sides.
func (r *FakeReplicator) NewUUID(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("new-uuid", id)
	defer r.link.mu.Unlock()
	if err != nil {
		return err
	}
	if k.connection != connected || k.disk != inconsistent || k.peerDisk != inconsistent {
		return errors.New("new-current-uuid: the replicas are not connected and new")
	}
	r.link.nextUUID += 2
	for _, s := range r.link.sides {
		s.disks[id].uuid, s.disks[id].consistent = r.link.nextUUID, true
	}
	r.link.setConnection(id, connected, connected)
	r.peer().notify(id)
	return nil
}

// SetPrimary makes this side primary; it calls the handler when it has no peer.
func (r *FakeReplicator) SetPrimary(_ context.Context, id fsm.VolumeID, force bool) error {
	k, err := r.begin("set-primary", id)
	switch {
	case err != nil:
		r.link.mu.Unlock()
		return err
	case k.primary:
		r.link.mu.Unlock()
		return nil
	case k.connection >= connected:
		defer r.link.mu.Unlock()
		if r.peer().kernel[id].primary || k.disk != upToDate {
			return errors.New("state change failed: its peer is primary, or its disk is not up to date")
		}
		k.primary = true
		return nil
	case k.disk != upToDate && k.disk != consistent && !force:
		r.link.mu.Unlock()
		return errors.New("need access to up-to-date data")
	}
	r.link.mu.Unlock()
	verdict := r.handle(id)
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if r.kernel[id] != k || verdict != fsmpb.Verdict_VERDICT_PEER_OUTDATED && !force {
		return fmt.Errorf("state change failed: the handler said %v", verdict)
	}
	if k.connection >= connected {
		return errors.New("state change failed: its peer connected meanwhile")
	}
	k.primary = true
	r.startOwnGeneration(id, k)
	r.notify(id)
	return nil
}

// SetSecondary makes this side secondary.
func (r *FakeReplicator) SetSecondary(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("set-secondary", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return nil
	case k.suspended:
		return fsm.Reject(fsm.Busy, "the I/O of %s is frozen", id)
	}
	k.primary = false
	return nil
}

// ResumeIO resumes suspended I/O.
func (r *FakeReplicator) ResumeIO(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("resume-io", id)
	defer r.link.mu.Unlock()
	if err == nil && k.suspended {
		if k.disk == failed {
			r.steps["resume-failed"]++
		}
		r.startOwnGeneration(id, k)
	}
	return err
}

// Down removes the resource from the kernel.
func (r *FakeReplicator) Down(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("down", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return nil
	case k.primary || k.suspended:
		return fsm.Reject(fsm.Busy, "%s is primary", id)
	}
	if p := r.peer().kernel[id]; k.connection >= connected && p != nil {
		if d := r.disks[id]; p.primary && d != nil {
			d.outdated = true
		}
		p.connection, p.peerDisk = connecting, outdated
		r.peer().notify(id)
	}
	delete(r.kernel, id)
	return nil
}
