package agent

import (
	"context"
	"slices"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// claimTarget reserves a path for one volume among those of this host. A path is in at most one
// volume's record, so that removing what was made there removes nothing of another volume. The
// caller holds the volume's lock, and calls release when the path is recorded, or will not be.
func (t *table) claimTarget(v *volume, path string) (release func(), err error) {
	realPath := t.realPath(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	if owner, owned := t.targetOwners[realPath]; owned && owner != v.id {
		return nil, fsm.Reject(fsm.Precondition, "target path %s is in use by volume %s; unpublish that first", path, owner)
	}
	t.targetOwners[realPath] = v.id
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if v.recordCopy.Target(path) == nil && t.targetOwners[realPath] == v.id {
			delete(t.targetOwners, realPath)
		}
	}, nil
}

// targetOwner is the volume whose record has the path, empty when none has.
func (t *table) targetOwner(path string) fsm.VolumeID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.targetOwners[t.realPath(path)]
}

// withdrawTarget withdraws an intent to bind that failed, so that no later call is rejected
// because of it (S73). What is bound stays. The caller holds the volume's lock.
func (b *targetBinder) withdrawTarget(ctx context.Context, v *volume, c *call, g *plan.Grant, path string) {
	want := &plan.VolumeSpec{Volume: v.id, Grant: g}
	have, err := b.observer.observeVolume(ctx, v, want)
	if err == nil && !slices.Contains(have.BoundTargets, path) {
		j := &job{volumeWorker: b.volumeWorker, v: v, want: &plan.VolumeSpec{Volume: v.id, DropTargets: []string{path}}, call: c, epoch: g.Epoch}
		err = j.dropTargets(ctx)
	}
	if err == nil {
		err = b.outbox.drain(ctx, v, c, drainTimeout)
	}
	if err != nil {
		b.logger(v).Info("cannot remove the record of a target path whose publish was refused; tried again later", "path", path, "error", err)
	}
}
