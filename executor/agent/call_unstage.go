package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// unstageDrainTimeout is how long NodeUnstageVolume waits for its report to be acknowledged, so
// that the ControllerUnpublishVolume that follows finds the volume unstaged.
const unstageDrainTimeout = 1500 * time.Millisecond

// Unstage takes a volume down, with or without a quorum (S28). A volume that is not staged at
// the path is unstaged already. Precondition: a target is bound.
func (a *Agent) Unstage(ctx context.Context, id fsm.VolumeID, path string) error {
	if !id.Valid() || !a.isKnown(id) {
		return nil
	}
	return a.calls.serveCall(ctx, id, "unstage "+path, func(ctx context.Context, v *volume, c *call) error {
		return a.stager.unstage(ctx, v, c, path)
	})
}

// isKnown reports whether the log or the host's own record has the volume.
func (t *table) isKnown(id fsm.VolumeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.volumes[id]
	return ok && (v.desired != nil || !v.recordCopy.Empty() || v.call != nil)
}

func (s *stager) unstage(ctx context.Context, v *volume, c *call, path string) error {
	at, epoch := s.observer.stagingOf(v)
	if at == "" || s.realPath(at) != s.realPath(path) {
		return nil
	}
	j := &job{volumeWorker: s.volumeWorker, v: v, want: &plan.VolumeSpec{Volume: v.id}, call: c}
	have, err := s.observer.observeVolume(ctx, v, j.want)
	if err != nil {
		return err
	}
	if mounts := append(have.BoundTargets, have.ForeignMounts...); len(mounts) > 0 {
		return fsm.Reject(fsm.Precondition, "volume %s is still mounted at %s", v.id, mounts[0])
	}
	recorded := v.record.Staging != nil
	if err := j.takeDown(ctx); err != nil {
		return err
	}
	if !recorded { // the log has an intent that this host never recorded
		if err := s.outbox.queueTeardowns(v, records.PendingTeardown{Epoch: epoch}); err != nil {
			return err
		}
	}
	if err := s.outbox.drain(ctx, v, c, min(unstageDrainTimeout, max(c.optionalWait, 0))); err != nil {
		s.logger(v).Info("the volume is unstaged, and the log does not have the report yet; it is sent again", "error", err)
	}
	return nil
}

// stagingOf is where the volume is staged by the host's record, else by the log.
func (o *observer) stagingOf(v *volume) (string, fsm.Epoch) {
	if staged := v.record.Staging; staged != nil {
		return staged.Path, staged.Epoch
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if d := v.desired; d != nil && d.Publication != nil && d.Publication.Staging != nil {
		return d.Publication.Staging.Path, d.Publication.Epoch
	}
	return "", fsm.Epoch{}
}
