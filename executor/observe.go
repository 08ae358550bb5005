package executor

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// paths is which mounts of a volume are meant to be there, by their real names.
type expectedPaths struct {
	staging string
	targets map[string]string // real name to the name that is used in records
}

// observeVolume looks at the host. What was read of the device's content is believed as
// long as the device stays attached. The caller holds the lock.
func (o *observer) observeVolume(ctx context.Context, v *volume, want *volumeSpec) (observedVolume, error) {
	backend, err := o.poolSet.backend(v)
	if err != nil {
		return observedVolume{}, err
	}
	device, replica, err := observeDevice(ctx, backend, v.id)
	if err != nil {
		return observedVolume{}, fmt.Errorf("look at volume %s: %w", v.id, err)
	}
	if replica != nil && want != nil && want.grant != nil { // who binds it makes that read-only
		device.ReadOnly = want.grant.block && want.grant.readOnly
	}
	mounts, err := o.Mounter.Mounts(ctx, device)
	if err != nil {
		return observedVolume{}, fmt.Errorf("look at the mounts of volume %s: %w", v.id, err)
	}
	if !device.Active() {
		v.content, v.formatted, v.appliedLimits = Content{}, false, nil
	}
	have := observedVolume{Device: device, replica: replica, content: v.content, formatted: v.formatted, limits: v.appliedLimits}
	o.expectedPaths(v, want).sort(mounts, &have)
	have.compareRecord(&v.record.volumeRecord, want)
	return have, nil
}

// observeDevice observes a volume, and what is known of it as a replica if it is one.
func observeDevice(ctx context.Context, backend Backend, id fsm.VolumeID) (Device, *observedReplica, error) {
	rb, ok := backend.(*replicaBackend)
	if !ok {
		device, err := backend.Observe(ctx, id)
		return device, nil, err
	}
	have, err := rb.observe(ctx)
	if err != nil {
		return Device{}, nil, err
	}
	return have.device(), have, nil
}

// expectedPaths are those of the record, of the log and of what is wanted now.
func (o *observer) expectedPaths(v *volume, want *volumeSpec) expectedPaths {
	p := expectedPaths{targets: map[string]string{}}
	add := func(path string) { p.targets[o.realPath(path)] = path }
	o.mu.Lock()
	w := v.desired
	o.mu.Unlock()
	if w != nil && w.Publication != nil {
		if w.Publication.Staging != nil {
			p.staging = o.realPath(w.Publication.Staging.Path)
		}
		for i := range w.Publication.Targets {
			add(w.Publication.Targets[i].Path)
		}
	}
	if v.record.Staging != nil {
		p.staging = o.realPath(v.record.Staging.Path)
	}
	for i := range v.record.Targets {
		add(v.record.Targets[i].Path)
	}
	if want != nil && want.grant != nil && v.record.Staging == nil {
		p.staging = o.realPath(want.grant.path)
	}
	if want != nil && want.bind != nil {
		add(want.bind.Path)
	}
	return p
}

// realPath is the path as the kernel names it; one that is not allowed stays as it is.
func (en *env) realPath(path string) string {
	if realPath, err := en.Mounter.RealPath(path); err == nil {
		return realPath
	}
	return path
}

func (p expectedPaths) sort(mounts []Mount, have *observedVolume) {
	for _, m := range mounts {
		name, isTarget := p.targets[m.Path]
		switch {
		case isTarget && !slices.Contains(have.boundTargets, name):
			have.boundTargets = append(have.boundTargets, name)
		case isTarget:
		case m.Path == p.staging && !m.DeviceNode:
			have.staged, have.stagingPath = true, m.Path
		default:
			have.foreignMounts = append(have.foreignMounts, m.Path)
		}
	}
}

// compareRecord tells what of the wanted is in the record on disk.
func (o *observedVolume) compareRecord(r *volumeRecord, want *volumeSpec) {
	o.recordedSize, o.filesystemFor, o.mayBeLimited, o.mayBeTorn = r.Size, r.FilesystemFor, r.MayBeLimited, r.MayBeTorn
	if want == nil || want.grant == nil {
		return
	}
	g := want.grant
	o.recorded = r.Staging != nil && *r.Staging == stagingRecord{Epoch: g.epoch, Path: g.path, Block: g.block}
	o.olderEpoch = r.Staging != nil && r.Staging.Epoch.Compare(g.epoch) < 0
	o.formatBegun = g.fs.UUID != "" && r.Formatting == g.fs.UUID
	if want.bind != nil {
		t := r.target(want.bind.Path)
		o.targetRecorded = t != nil && *t == *want.bind
	}
}

// situation is what is known of the volume now, between calls. at is as of where
// the wish holds. The caller holds the lock.
func (o *observer) view(ctx context.Context, v *volume) (s *volumeView, at fsm.Epoch, err error) {
	have, err := o.observeVolume(ctx, v, nil)
	if err != nil {
		return nil, at, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if v.desired != nil {
		v.lastTried = v.desired
	}
	return &volumeView{
		volume: v.id, boot: o.Host.BootID, desired: v.desired, actionable: o.isActionable(v), record: &v.record.volumeRecord, have: have,
		ackedLimits: v.ackedLimits, incarnationID: o.session.incarnationID,
	}, o.session.at, nil
}
