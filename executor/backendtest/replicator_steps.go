package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Check finds nothing wrong.
func (r *FakeReplicator) Check(context.Context) error { return nil }

// Version is that of the kernel it stands in for.
func (r *FakeReplicator) Version() (version string, replicas uint32) { return "8.4.11", 2 }

// Backing and Room differ by the metadata.
func (r *FakeReplicator) Backing(size int64) int64 { return size + fakeMetadata }

// Room is the inverse of Backing.
func (r *FakeReplicator) Room(backing int64) int64 { return max(0, backing-fakeMetadata) }

// Observe looks at the kernel and at the disk.
func (r *FakeReplicator) Observe(_ context.Context, id fsm.VolumeID, minor uint32, backing string) (executor.Mirror, error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	m := executor.Mirror{Done: -1, PeerRole: "Unknown"}
	_, m.Configured = r.files[id]
	d := r.disks[id]
	if d != nil && backing != "" {
		m.Metadata, m.Fresh, m.UUID = true, d.uuid == 0, d.uuid
	}
	k := r.kernel[id]
	if k == nil {
		return m, nil
	}
	if d != nil && d.marked {
		m.OutOfSync = 1
	}
	m.InKernel, m.Primary, m.Disk, m.Connection, m.PeerDisk, m.Suspended = true, k.primary, k.disk, k.link, k.peerDisk, k.suspended
	m.Path, m.Number = fmt.Sprintf("/dev/drbd%d", minor), 147<<8|uint64(minor)
	if k.link >= connected {
		m.PeerRole = "Secondary"
		if r.peer().kernel[id].primary {
			m.PeerRole = "Primary"
		}
	}
	if k.link >= syncSource {
		m.Done = 40
	}
	return m, nil
}

// Suspended lists what is frozen.
func (r *FakeReplicator) Suspended(context.Context) ([]fsm.VolumeID, error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	var all []fsm.VolumeID
	for id, k := range r.kernel {
		if k.suspended {
			all = append(all, id)
		}
	}
	return all, nil
}

// Known lists what is in the kernel or in files.
func (r *FakeReplicator) Known(context.Context) ([]fsm.VolumeID, error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	var all []fsm.VolumeID
	for id := range r.files {
		all = append(all, id)
	}
	for id := range r.kernel {
		if _, both := r.files[id]; !both {
			all = append(all, id)
		}
	}
	return all, nil
}

// Watch calls changed until ctx ends.
func (r *FakeReplicator) Watch(ctx context.Context, changed func(fsm.VolumeID)) error {
	r.link.mu.Lock()
	r.changed = changed
	r.link.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// Configure keeps the file.
func (r *FakeReplicator) Configure(_ context.Context, f executor.Resource) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.files[f.Volume] = f
	r.steps["configure"]++
	return nil
}

// Resource is what the file says.
func (r *FakeReplicator) Resource(id fsm.VolumeID) executor.Resource {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return r.files[id]
}

// Adjust changes nothing here.
func (r *FakeReplicator) Adjust(_ context.Context, id fsm.VolumeID) error {
	_, err := r.begin("adjust", id)
	r.link.mu.Unlock()
	return err
}

// Forget removes the file.
func (r *FakeReplicator) Forget(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	if r.kernel[id] != nil {
		return fsm.Reject(fsm.Busy, "the kernel has %s", id)
	}
	delete(r.files, id)
	delete(r.disks, id) // the device below goes next
	return nil
}

// CreateMetadata leaves those that are there.
func (r *FakeReplicator) CreateMetadata(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.steps["create-metadata"]++
	if r.disks[id] == nil {
		r.disks[id] = &fakeDisk{}
	}
	return nil
}

// Attach gives the kernel the disk.
func (r *FakeReplicator) Attach(_ context.Context, id fsm.VolumeID) error {
	_, err := r.begin("attach", id)
	defer r.link.mu.Unlock()
	d := r.disks[id]
	switch {
	case d == nil || r.files[id].Volume == "":
		return errors.New("attach: no metadata or no file")
	case r.kernel[id] == nil && err != nil && r.Fail != nil && r.Fail("attach", id) != nil:
		return err
	case r.kernel[id] == nil:
		r.kernel[id] = &fakeResource{disk: diskless, link: standAlone}
	}
	k := r.kernel[id]
	switch {
	case k.disk > diskless:
		return nil
	case !d.whole || d.uuid == 0:
		k.disk = inconsistent
	case d.outdated:
		k.disk = outdated
	default:
		k.disk = consistent
	}
	if k.link >= connected { // it meets its peer anew
		p := r.peer().kernel[id]
		k.link, p.link = connecting, connecting
		if p.primary && p.disk == upToDate {
			d.whole = false
		} else if k.primary {
			r.peer().disks[id].history = append(r.peer().disks[id].history, d.uuid)
			d.whole, k.disk = false, inconsistent
			r.link.synchronise(id, r.peer(), r)
			return nil
		}
		r.link.meet(id)
	}
	return nil
}

// Detach takes it away.
func (r *FakeReplicator) Detach(_ context.Context, id fsm.VolumeID, _ bool) error {
	_, err := r.begin("detach", id)
	defer r.link.mu.Unlock()
	if err == nil {
		r.detach(id)
	}
	return err
}

func (r *FakeReplicator) detach(id fsm.VolumeID) {
	k, p := r.kernel[id], r.peer().kernel[id]
	k.disk = diskless
	if k.link >= connected && p != nil {
		p.peerDisk = diskless
		r.peer().notify(id)
	}
	r.notify(id)
}

// Connect begins to wait for the peer.
func (r *FakeReplicator) Connect(_ context.Context, id fsm.VolumeID, discard bool) error {
	k, err := r.begin("connect", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return err
	case k.link > standAlone:
		return nil
	case discard && k.primary:
		return fsm.Reject(fsm.Precondition, "a primary discards nothing")
	}
	k.link, k.discard = connecting, discard
	r.link.meet(id)
	return nil
}

// Disconnect is by force.
func (r *FakeReplicator) Disconnect(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("disconnect", id)
	defer r.link.mu.Unlock()
	if err == nil {
		r.link.lose(id)
		k.link, k.discard = standAlone, false
	}
	return err
}

// NewUUID makes the first generation of both.
func (r *FakeReplicator) NewUUID(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("new-uuid", id)
	defer r.link.mu.Unlock()
	if err != nil {
		return err
	}
	if k.link != connected || k.disk != inconsistent || k.peerDisk != inconsistent {
		return errors.New("new-current-uuid: the replicas are not connected and new")
	}
	r.link.next += 2
	for _, s := range r.link.sides {
		s.disks[id].uuid, s.disks[id].whole = r.link.next, true
	}
	r.link.join(id, connected, connected)
	r.peer().notify(id)
	return nil
}

// SetPrimary asks the handler where there is no peer.
func (r *FakeReplicator) SetPrimary(_ context.Context, id fsm.VolumeID, force bool) error {
	k, err := r.begin("set-primary", id)
	switch {
	case err != nil:
		r.link.mu.Unlock()
		return err
	case k.primary:
		r.link.mu.Unlock()
		return nil
	case k.link >= connected:
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
	if k.link < connected {
		k.primary = true
		r.goOn(id, k)
		r.notify(id)
	}
	return nil
}

// SetSecondary ends that.
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

// ResumeIO ends a freeze.
func (r *FakeReplicator) ResumeIO(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("resume-io", id)
	defer r.link.mu.Unlock()
	if err == nil && k.suspended {
		r.goOn(id, k)
	}
	return err
}

// Invalidate has this replica copied from its peer.
func (r *FakeReplicator) Invalidate(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("invalidate", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return err
	case k.link == connected:
		r.link.synchronise(id, r.peer(), r)
	case k.link == standAlone && k.disk == inconsistent:
		r.disks[id].marked = true
	}
	return nil
}

// Resize has nothing to do.
func (r *FakeReplicator) Resize(_ context.Context, id fsm.VolumeID, _ int64) error {
	_, err := r.begin("resize", id)
	r.link.mu.Unlock()
	return err
}

// Verify finds nothing.
func (r *FakeReplicator) Verify(_ context.Context, id fsm.VolumeID) error {
	_, err := r.begin("verify", id)
	r.link.mu.Unlock()
	return err
}

// Down takes the resource out of the kernel.
func (r *FakeReplicator) Down(_ context.Context, id fsm.VolumeID) error {
	k, err := r.begin("down", id)
	defer r.link.mu.Unlock()
	switch {
	case err != nil:
		return nil
	case k.primary || k.suspended:
		return fsm.Reject(fsm.Busy, "%s is primary", id)
	}
	if p := r.peer().kernel[id]; k.link >= connected && p != nil {
		if d := r.disks[id]; p.primary && d != nil {
			d.outdated = true
		}
		p.link, p.peerDisk = connecting, outdated
		r.peer().notify(id)
	}
	delete(r.kernel, id)
	return nil
}

// Owner is the volume whose device has the path now.
func (r *FakeReplicator) Owner(path string) (fsm.VolumeID, bool) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	ids := make([]fsm.VolumeID, 0, len(r.files))
	for id, f := range r.files {
		if fmt.Sprintf("/dev/drbd%d", f.Minor) == path && r.kernel[id] != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return "", false
	}
	return ids[0], true
}

// WipeMetadata removes what a copy has of its source.
func (r *FakeReplicator) WipeMetadata(_ context.Context, id fsm.VolumeID) error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	r.steps["wipe-metadata"]++
	if r.kernel[id] == nil {
		delete(r.disks, id)
	}
	return nil
}
