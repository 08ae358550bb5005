package executor

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// unstageDrainTimeout is how long NodeUnstage waits for the log to hear of it, so that the
// ControllerUnpublish that follows finds the volume unstaged.
const unstageDrainTimeout = 1500 * time.Millisecond

// Unstage takes a volume down, with or without the quorum (S28). What is not
// staged at the path is unstaged. It is Precondition while a target is bound.
func (e *Executor) Unstage(ctx context.Context, id fsm.VolumeID, path string) error {
	if !id.Valid() || !e.isKnown(id) {
		return nil
	}
	return e.serveCall(ctx, id, "unstage "+path, func(ctx context.Context, v *volume, c *call) error {
		return e.unstage(ctx, v, c, path)
	})
}

// isKnown tells whether the log or the host's own record knows the volume.
func (e *Executor) isKnown(id fsm.VolumeID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	v, ok := e.volumes[id]
	return ok && (v.desired != nil || !v.recordCopy.empty() || v.call != nil)
}

func (e *Executor) unstage(ctx context.Context, v *volume, c *call, path string) error {
	at, epoch := e.stagingOf(v)
	if at == "" || e.realPath(at) != e.realPath(path) {
		return nil
	}
	j := &job{Executor: e, v: v, want: &volumeSpec{volume: v.id}, call: c}
	have, err := e.observeVolume(ctx, v, j.want)
	if err != nil {
		return err
	}
	if mounts := append(have.boundTargets, have.foreignMounts...); len(mounts) > 0 {
		return fsm.Reject(fsm.Precondition, "volume %s is still mounted at %s", v.id, mounts[0])
	}
	recorded := v.record.Staging != nil
	if err := j.takeDown(ctx); err != nil {
		return err
	}
	if !recorded { // the log knows of an intent that this host never recorded
		if err := e.queueTeardowns(v, pendingTeardown{Epoch: epoch}); err != nil {
			return err
		}
	}
	if err := e.drain(ctx, v, c, min(unstageDrainTimeout, max(c.optionalWait, 0))); err != nil {
		e.logger(v).Info("unstaged; the log will hear of it later", "error", err)
	}
	return nil
}

// stagedAt is where the volume is staged by the host's record, else by the log.
func (e *Executor) stagingOf(v *volume) (string, fsm.Epoch) {
	if staged := v.record.Staging; staged != nil {
		return staged.Path, staged.Epoch
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := v.desired; w != nil && w.Publication != nil && w.Publication.Staging != nil {
		return w.Publication.Staging.Path, w.Publication.Epoch
	}
	return "", fsm.Epoch{}
}
