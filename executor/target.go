package executor

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
)

// claim makes the path the volume's own among those of this host: a path is in one
// volume's record at a time, so whoever removes what he made there removes nothing of
// another's. The caller holds the lock, and calls the result when the path is recorded,
// or will not be.
func (e *Executor) claim(v *volume, path string) (release func(), err error) {
	real := e.real(path)
	e.mu.Lock()
	defer e.mu.Unlock()
	if owner, taken := e.targets[real]; taken && owner != v.id {
		return nil, fsm.Reject(fsm.Precondition, "target path %s is in use by volume %s; unpublish that first", path, owner)
	}
	e.targets[real] = v.id
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if v.shown.target(path) == nil && e.targets[real] == v.id {
			delete(e.targets, real)
		}
	}, nil
}

// show copies the volume's record for readers, and its targets with it. The caller holds
// mu, or is alone.
func (e *Executor) show(v *volume) {
	for i := range v.shown.Targets {
		if real := e.real(v.shown.Targets[i].Path); e.targets[real] == v.id {
			delete(e.targets, real)
		}
	}
	if !sameStaging(v.shown.Staging, v.journal.Staging) {
		v.stagings++
	}
	v.shown = v.journal.record
	for i := range v.shown.Targets {
		e.targets[e.real(v.shown.Targets[i].Path)] = v.id
	}
}

// ownerOf is the volume in whose record the path is, empty when it is in none.
func (e *Executor) ownerOf(path string) fsm.VolumeID {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.targets[e.real(path)]
}

// unbind ends one target: its mounts, then the path, then the record of it.
func (j *job) unbind(ctx context.Context, path string, have *observed) error {
	bound := contains(have.bound, path)
	if bound {
		if err := j.Mounter.Unmount(ctx, have.Device, path); err != nil {
			return err
		}
	}
	j.hit("unbind.unmounted")
	if err := j.removeTarget(ctx, path, bound); err != nil {
		return err
	}
	j.hit("unbind.removed")
	if len(j.want.drop) > 0 && j.want.drop[0] == path {
		j.want.drop = j.want.drop[1:]
	}
	epoch := j.publishedAt()
	j.v.journal.Targets = j.v.journal.withoutTarget(path)
	if epoch.IsZero() {
		return j.save(j.v, true)
	}
	return j.owe(j.v, owed{Epoch: epoch, Target: path})
}

// removeTarget removes what the bind made at the path. What this host did not make for
// this volume, or is something else by now, is left alone, and ends nothing (S73).
func (j *job) removeTarget(ctx context.Context, path string, bound bool) error {
	if owner := j.ownerOf(path); owner != j.v.id && (owner != "" || !bound) {
		j.logger(j.v).Info("the target path is not this volume's, and is left alone", "path", path, "owner", owner)
		return nil
	}
	err := j.Mounter.RemoveTarget(ctx, path)
	var rej *fsm.Rejection
	if errors.As(err, &rej) && (rej.Reason == fsm.Precondition || rej.Reason == fsm.Invalid) {
		j.logger(j.v).Warn("the volume is not mounted at its target path any more, and what is there is left alone", "path", path, "because", err)
		return nil
	}
	return err
}

// withdraw ends an intent to bind that came to nothing, so that no later call meets it
// (S73). What is bound stays. The caller holds the lock.
func (e *Executor) withdraw(ctx context.Context, v *volume, c *call, g *grant, path string) {
	want := &desired{volume: v.id, grant: g}
	have, err := e.observe(ctx, v, want)
	if err == nil && !contains(have.bound, path) {
		j := &job{Executor: e, v: v, want: &desired{volume: v.id, drop: []string{path}}, call: c, epoch: g.epoch}
		err = j.dropTargets(ctx)
	}
	if err == nil {
		err = e.drain(ctx, v, c, drainLimit)
	}
	if err != nil {
		e.logger(v).Info("a refused target is not forgotten yet", "path", path, "error", err)
	}
}
