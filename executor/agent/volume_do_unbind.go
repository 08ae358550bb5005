package agent

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// unbind ends one target: first its mounts, then the path, then its record.
func (j *job) unbind(ctx context.Context, path string, have *plan.ObservedVolume) error {
	bound := slices.Contains(have.BoundTargets, path)
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
	if len(j.want.DropTargets) > 0 && j.want.DropTargets[0] == path {
		j.want.DropTargets = j.want.DropTargets[1:]
	}
	epoch := j.publicationEpoch()
	j.v.record.Targets = j.v.record.WithoutTarget(path)
	if epoch.IsZero() {
		return j.records.saveRecord(j.v, true)
	}
	return j.outbox.queueTeardowns(j.v, records.PendingTeardown{Epoch: epoch, Target: path})
}

// removeTarget removes what the bind made at the path. What this host did not make for this
// volume, or what is something else by now, is left alone and fails nothing (S73).
func (j *job) removeTarget(ctx context.Context, path string, bound bool) error {
	if owner := j.targetOwner(path); owner != j.v.id && (owner != "" || !bound) {
		j.logger(j.v).Info("the target path is not this volume's, and is left as it is", "path", path, "owner", owner)
		return nil
	}
	err := j.Mounter.RemoveTarget(ctx, path)
	var rej *fsm.Rejection
	if errors.As(err, &rej) && (rej.Reason == fsm.Precondition || rej.Reason == fsm.Invalid) {
		j.logger(j.v).Warn("the volume is not mounted at its target path any more, and what is there is left as it is", "path", path, "because", err)
		return nil
	}
	return err
}
