package backendtest

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/drbd/drbdmodel"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Check returns nil.
func (r *FakeReplicator) Check(context.Context) error { return nil }

// Version returns the version that the fake stands in for.
func (r *FakeReplicator) Version() (version string, replicas uint32) { return "8.4.11", 2 }

// BackingSize adds the size of the metadata.
func (r *FakeReplicator) BackingSize(size int64) int64 { return size + fakeMetadata }

// BackingCapacity is the inverse of BackingSize.
func (r *FakeReplicator) BackingCapacity(backing int64) int64 { return max(0, backing-fakeMetadata) }

// Observe returns the state of the kernel and of the disk.
func (r *FakeReplicator) Observe(_ context.Context, id fsm.VolumeID, minor uint32, backing string) (executor.ResourceStatus, error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	m := executor.ResourceStatus{SyncPercent: -1, PeerRole: "Unknown"}
	_, m.HasConfig = r.files[id]
	s := r.link.volume(id).pair.Observe(r.side)
	if backing != "" {
		fillMetadata(&m, s.Metadata)
	}
	if !s.InKernel {
		return m, nil
	}
	if s.Disk == failed {
		r.steps["observe-failed"]++
	}
	if s.Metadata.OutOfSync.Len() == drbdmodel.MaxWrites {
		m.OutOfSync = 1 // all of it: the device's size is 0 here
	}
	m.InKernel, m.Primary, m.Disk, m.Connection, m.PeerDisk, m.Suspended, m.Frozen = true, s.Primary, s.Disk, s.Connection, s.PeerDisk, s.Suspended, s.Frozen
	m.Path, m.Number = fmt.Sprintf("/dev/drbd%d", minor), 147<<8|uint64(minor)
	if s.Connected() {
		m.PeerRole = "Secondary"
		if s.PeerPrimary {
			m.PeerRole = "Primary"
		}
	}
	if s.Connection >= syncSource {
		m.SyncPercent = 40
	}
	return m, nil
}

func fillMetadata(m *executor.ResourceStatus, md drbdmodel.Metadata) {
	m.HasMetadata, m.JustCreated = md.Exist, md.Exist && md.Current == drbdmodel.JustCreated
	if !m.JustCreated {
		m.UUID, m.BitmapUUID = md.Current, md.Bitmap
	}
}

// ListSuspended returns the volumes whose I/O is suspended.
func (r *FakeReplicator) ListSuspended(context.Context) ([]fsm.VolumeID, error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	var all []fsm.VolumeID
	for id, v := range r.link.volumes {
		if v.pair.Observe(r.side).Suspended {
			all = append(all, id)
		}
	}
	return all, nil
}

// ListSync returns the replicas that are in the kernel. A write that the peer does not have counts as one byte.
func (r *FakeReplicator) ListSync(context.Context) (map[fsm.VolumeID]executor.SyncStatus, error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	all := map[fsm.VolumeID]executor.SyncStatus{}
	for id, v := range r.link.volumes {
		s := v.pair.Observe(r.side)
		if !s.InKernel {
			continue
		}
		status := executor.SyncStatus{Connection: s.Connection, OutOfSync: int64(s.Metadata.OutOfSync.Len()), Percent: -1, Suspended: s.Suspended}
		if s.Connection >= syncSource {
			status.Percent = 40
		}
		all[id] = status
	}
	return all, nil
}

// ListResources returns the volumes that are in the kernel or have a file.
func (r *FakeReplicator) ListResources(context.Context) ([]fsm.VolumeID, error) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	var all []fsm.VolumeID
	for id := range r.files {
		all = append(all, id)
	}
	for id, v := range r.link.volumes {
		if _, both := r.files[id]; !both && v.pair.Observe(r.side).InKernel {
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

// Resource returns the volume's configuration file.
func (r *FakeReplicator) Resource(id fsm.VolumeID) executor.ResourceConfig {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return r.files[id]
}

// Owner returns the volume whose device has the path now.
func (r *FakeReplicator) Owner(path string) (fsm.VolumeID, bool) {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	ids := make([]fsm.VolumeID, 0, len(r.files))
	for id, f := range r.files {
		if fmt.Sprintf("/dev/drbd%d", f.Minor) == path && r.link.volume(id).pair.Observe(r.side).InKernel {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	if len(ids) == 0 {
		return "", false
	}
	return ids[0], true
}
