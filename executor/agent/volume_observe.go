package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// expectedPaths are the paths where mounts of a volume belong, by their real names.
type expectedPaths struct {
	staging string
	targets map[string]string // real name to the name in the records
}

// observeVolume observes the host. What was read of the device's content is kept as long as the
// device stays active. The caller holds the volume's lock.
func (o *observer) observeVolume(ctx context.Context, v *volume, want *plan.VolumeSpec) (plan.ObservedVolume, error) {
	backend, err := o.poolSet.backend(v)
	if err != nil {
		return plan.ObservedVolume{}, err
	}
	device, replica, err := observeDevice(ctx, backend, v.id)
	if err != nil {
		return plan.ObservedVolume{}, fmt.Errorf("look at volume %s: %w", v.id, err)
	}
	if replica != nil && !o.isEncrypted(v) && want != nil && want.Grant != nil { // DRBD's device is writable: the bind of its node is read-only
		device.ReadOnly = want.Grant.Block && want.Grant.ReadOnly
	}
	device, crypt, err := o.aboveEncryption(ctx, v, device)
	if err != nil {
		return plan.ObservedVolume{}, err
	}
	if crypt != nil {
		o.observeCrypt(v, &device, crypt)
	}
	mounts, err := o.Mounter.Mounts(ctx, device)
	if err != nil {
		return plan.ObservedVolume{}, fmt.Errorf("look at the mounts of volume %s: %w", v.id, err)
	}
	if !device.Active() {
		v.content, v.formatted, v.appliedLimits = executor.Content{}, false, nil
	}
	have := plan.ObservedVolume{Device: device, Replica: replica, Crypt: crypt, Content: v.content, Formatted: v.formatted, Limits: v.appliedLimits}
	o.expectedPaths(v, want).sort(mounts, &have)
	have.CompareRecord(&v.record.VolumeRecord, want)
	return have, nil
}

// observeDevice observes a volume's device, and the replica if it is a replicated one.
func observeDevice(ctx context.Context, backend executor.Backend, id fsm.VolumeID) (executor.Device, *plan.ObservedReplica, error) {
	rb, ok := backend.(*replicaBackend)
	if !ok {
		device, err := backend.Observe(ctx, id)
		return device, nil, err
	}
	have, err := rb.observe(ctx)
	if err != nil {
		return executor.Device{}, nil, err
	}
	return have.Device(), have, nil
}

// expectedPaths are those in the record, in the log, and in what is wanted now.
func (o *observer) expectedPaths(v *volume, want *plan.VolumeSpec) expectedPaths {
	p := expectedPaths{targets: map[string]string{}}
	add := func(path string) { p.targets[o.realPath(path)] = path }
	o.mu.Lock()
	d := v.desired
	o.mu.Unlock()
	if d != nil && d.Publication != nil {
		if d.Publication.Staging != nil {
			p.staging = o.realPath(d.Publication.Staging.Path)
		}
		for i := range d.Publication.Targets {
			add(d.Publication.Targets[i].Path)
		}
	}
	if v.record.Staging != nil {
		p.staging = o.realPath(v.record.Staging.Path)
	}
	for i := range v.record.Targets {
		add(v.record.Targets[i].Path)
	}
	if want != nil && want.Grant != nil && v.record.Staging == nil {
		p.staging = o.realPath(want.Grant.Path)
	}
	if want != nil && want.Bind != nil {
		add(want.Bind.Path)
	}
	return p
}

func (p expectedPaths) sort(mounts []executor.Mount, have *plan.ObservedVolume) {
	for _, m := range mounts {
		name, isTarget := p.targets[m.Path]
		switch {
		case isTarget && !slices.Contains(have.BoundTargets, name):
			have.BoundTargets = append(have.BoundTargets, name)
		case isTarget:
		case m.Path == p.staging && !m.DeviceNode:
			have.Staged, have.StagingPath = true, m.Path
		default:
			have.ForeignMounts = append(have.ForeignMounts, m.Path)
		}
	}
}

// view is what is known of the volume now, between calls; at is the epoch of its desired state.
// The caller holds the volume's lock.
func (o *observer) view(ctx context.Context, v *volume) (view *plan.VolumeView, at fsm.Epoch, err error) {
	have, err := o.observeVolume(ctx, v, nil)
	if err != nil {
		return nil, at, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if v.desired != nil {
		v.lastTried = v.desired
	}
	return &plan.VolumeView{
		Volume: v.id, Boot: o.Host.BootID, Desired: v.desired, DesiredAt: v.desiredAt, Actionable: o.isActionable(v), Record: &v.record.VolumeRecord, Have: have,
		AckedLimits: v.ackedLimits, IncarnationID: o.session.incarnationID,
	}, o.session.at, nil
}
