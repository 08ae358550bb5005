package executor

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// paths is which mounts of a volume are meant to be there, by their real names.
type paths struct {
	staging string
	targets map[string]string // real name to the name that is used in records
}

// observe looks at the host. What was read of the device's content is believed as
// long as the device stays attached. The caller holds the lock.
func (e *Executor) observe(ctx context.Context, v *volume, want *desired) (observed, error) {
	backend, err := e.backend(v)
	if err != nil {
		return observed{}, err
	}
	device, replica, err := lookAt(ctx, backend, v.id)
	if err != nil {
		return observed{}, fmt.Errorf("look at volume %s: %w", v.id, err)
	}
	if replica != nil && want != nil && want.grant != nil { // who binds it makes that read-only
		device.ReadOnly = want.grant.block && want.grant.readOnly
	}
	mounts, err := e.Mounter.Mounts(ctx, device)
	if err != nil {
		return observed{}, fmt.Errorf("look at the mounts of volume %s: %w", v.id, err)
	}
	if !device.Attached() {
		v.content, v.formatted, v.applied = Content{}, false, nil
	}
	have := observed{Device: device, replica: replica, content: v.content, formatted: v.formatted, limits: v.applied}
	e.pathsOf(v, want).sort(mounts, &have)
	have.compare(&v.journal.record, want)
	return have, nil
}

// lookAt observes a volume, and what is known of it as a replica if it is one.
func lookAt(ctx context.Context, backend Backend, id fsm.VolumeID) (Device, *replicaHave, error) {
	view, ok := backend.(*replicaView)
	if !ok {
		device, err := backend.Observe(ctx, id)
		return device, nil, err
	}
	have, err := view.look(ctx)
	if err != nil {
		return Device{}, nil, err
	}
	return have.device(), have, nil
}

// pathsOf are those of the record, of the log and of what is wanted now.
func (e *Executor) pathsOf(v *volume, want *desired) paths {
	p := paths{targets: map[string]string{}}
	add := func(path string) { p.targets[e.real(path)] = path }
	e.mu.Lock()
	w := v.wish
	e.mu.Unlock()
	if w != nil && w.Publication != nil {
		if w.Publication.Staging != nil {
			p.staging = e.real(w.Publication.Staging.Path)
		}
		for i := range w.Publication.Targets {
			add(w.Publication.Targets[i].Path)
		}
	}
	if v.journal.Staging != nil {
		p.staging = e.real(v.journal.Staging.Path)
	}
	for i := range v.journal.Targets {
		add(v.journal.Targets[i].Path)
	}
	if want != nil && want.grant != nil && v.journal.Staging == nil {
		p.staging = e.real(want.grant.path)
	}
	if want != nil && want.bind != nil {
		add(want.bind.Path)
	}
	return p
}

// real is the path as the kernel names it; one that is not allowed stays as it is.
func (e *Executor) real(path string) string {
	if real, err := e.Mounter.Real(path); err == nil {
		return real
	}
	return path
}

func (p paths) sort(mounts []Mount, have *observed) {
	for _, m := range mounts {
		name, isTarget := p.targets[m.Path]
		switch {
		case isTarget && !contains(have.bound, name):
			have.bound = append(have.bound, name)
		case isTarget:
		case m.Path == p.staging && !m.Node:
			have.staged, have.stagedAt = true, m.Path
		default:
			have.strange = append(have.strange, m.Path)
		}
	}
}

// compare tells what of the wanted is in the record on disk.
func (o *observed) compare(r *record, want *desired) {
	o.known, o.grownTo, o.limited, o.copying = r.Size, r.GrownTo, r.Limited, r.Copying
	if want == nil || want.grant == nil {
		return
	}
	g := want.grant
	o.recorded = r.Staging != nil && *r.Staging == staging{Epoch: g.epoch, Path: g.path, Block: g.block}
	o.older = r.Staging != nil && r.Staging.Epoch.Compare(g.epoch) < 0
	o.marked = g.fs.UUID != "" && r.Formatting == g.fs.UUID
	if want.bind != nil {
		t := r.target(want.bind.Path)
		o.targetRecorded = t != nil && *t == *want.bind
	}
}

// situation is what is known of the volume now, between calls. at is as of where
// the wish holds. The caller holds the lock.
func (e *Executor) situation(ctx context.Context, v *volume) (s *situation, at fsm.Epoch, err error) {
	have, err := e.observe(ctx, v, nil)
	if err != nil {
		return nil, at, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.wish != nil {
		v.tried = v.wish
	}
	return &situation{
		volume: v.id, boot: e.Host.Boot, wish: v.wish, fresh: e.fresh(v), record: &v.journal.record, have: have,
		toldLimits: v.limits, incarnationID: e.session.incarnationID,
	}, e.session.at, nil
}
