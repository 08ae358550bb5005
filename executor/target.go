package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// claimTarget makes the path the volume's own among those of this host: a path is in one
// volume's record at a time, so whoever removes what he made there removes nothing of
// another's. The caller holds the lock, and calls the result when the path is recorded,
// or will not be.
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
		if v.recordCopy.target(path) == nil && t.targetOwners[realPath] == v.id {
			delete(t.targetOwners, realPath)
		}
	}, nil
}

// refreshRecordCopy copies the volume's record for readers, and its targets with it. The caller holds
// mu, or is alone.
func (t *table) refreshRecordCopy(v *volume) {
	for i := range v.recordCopy.Targets {
		if realPath := t.realPath(v.recordCopy.Targets[i].Path); t.targetOwners[realPath] == v.id {
			delete(t.targetOwners, realPath)
		}
	}
	if !sameStaging(v.recordCopy.Staging, v.record.Staging) {
		v.stagingChanges++
	}
	v.recordCopy = v.record.volumeRecord
	for i := range v.recordCopy.Targets {
		t.targetOwners[t.realPath(v.recordCopy.Targets[i].Path)] = v.id
	}
}

// targetOwner is the volume in whose record the path is, empty when it is in none.
func (t *table) targetOwner(path string) fsm.VolumeID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.targetOwners[t.realPath(path)]
}

// unbind ends one target: its mounts, then the path, then the record of it.
func (j *job) unbind(ctx context.Context, path string, have *observedVolume) error {
	bound := slices.Contains(have.boundTargets, path)
	if bound {
		if err := j.Mounter.Unmount(ctx, have.Device, path); err != nil {
			return err
		}
	}
	j.hitFaultPoint("unbind.unmounted")
	if err := j.removeTarget(ctx, path, bound); err != nil {
		return err
	}
	j.hitFaultPoint("unbind.removed")
	if len(j.want.dropTargets) > 0 && j.want.dropTargets[0] == path {
		j.want.dropTargets = j.want.dropTargets[1:]
	}
	epoch := j.publicationEpoch()
	j.v.record.Targets = j.v.record.withoutTarget(path)
	if epoch.IsZero() {
		return j.records.saveRecord(j.v, true)
	}
	return j.outbox.queueTeardowns(j.v, pendingTeardown{Epoch: epoch, Target: path})
}

// removeTarget removes what the bind made at the path. What this host did not make for
// this volume, or is something else by now, is left alone, and ends nothing (S73).
func (j *job) removeTarget(ctx context.Context, path string, bound bool) error {
	if owner := j.targetOwner(path); owner != j.v.id && (owner != "" || !bound) {
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

// withdrawTarget ends an intent to bind that came to nothing, so that no later call meets it
// (S73). What is bound stays. The caller holds the lock.
func (b *targetBinder) withdrawTarget(ctx context.Context, v *volume, c *call, g *grant, path string) {
	want := &volumeSpec{volume: v.id, grant: g}
	have, err := b.observer.observeVolume(ctx, v, want)
	if err == nil && !slices.Contains(have.boundTargets, path) {
		j := &job{volumeWorker: b.volumeWorker, v: v, want: &volumeSpec{volume: v.id, dropTargets: []string{path}}, call: c, epoch: g.epoch}
		err = j.dropTargets(ctx)
	}
	if err == nil {
		err = b.outbox.drain(ctx, v, c, drainTimeout)
	}
	if err != nil {
		b.logger(v).Info("a refused target is not forgotten yet", "path", path, "error", err)
	}
}
