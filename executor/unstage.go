package executor

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// unstageDrain is how long NodeUnstage waits for the log to hear of it, so that the
// ControllerUnpublish that follows finds the volume unstaged.
const unstageDrain = 1500 * time.Millisecond

// Unstage takes a volume down, with or without the quorum (S28). What is not
// staged at the path is unstaged. It is Precondition while a target is bound.
func (e *Executor) Unstage(ctx context.Context, id fsm.VolumeID, path string) error {
	if !id.Valid() || !e.knows(id) {
		return nil
	}
	return e.serve(ctx, id, "unstage "+path, func(ctx context.Context, v *volume, c *call) error {
		return e.unstage(ctx, v, c, path)
	})
}

// knows tells whether the log or the host's own record knows the volume.
func (e *Executor) knows(id fsm.VolumeID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	v, ok := e.volumes[id]
	return ok && (v.wish != nil || !v.shown.empty() || v.call != nil)
}

func (e *Executor) unstage(ctx context.Context, v *volume, c *call, path string) error {
	at, epoch := e.stagedAt(v)
	if at == "" || e.real(at) != e.real(path) {
		return nil
	}
	j := &job{Executor: e, v: v, want: &desired{volume: v.id}, call: c}
	have, err := e.observe(ctx, v, j.want)
	if err != nil {
		return err
	}
	if still := append(have.bound, have.strange...); len(still) > 0 {
		return fsm.Reject(fsm.Precondition, "volume %s is still mounted at %s", v.id, still[0])
	}
	recorded := v.journal.Staging != nil
	if err := j.down(ctx); err != nil {
		return err
	}
	if !recorded { // the log knows of an intent that this host never recorded
		if err := e.owe(v, owed{Epoch: epoch}); err != nil {
			return err
		}
	}
	if err := e.drain(ctx, v, c, min(unstageDrain, max(c.patient, 0))); err != nil {
		e.logger(v).Info("unstaged; the log will hear of it later", "error", err)
	}
	return nil
}

// stagedAt is where the volume is staged by the host's record, else by the log.
func (e *Executor) stagedAt(v *volume) (string, fsm.Epoch) {
	if held := v.journal.Staging; held != nil {
		return held.Path, held.Epoch
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := v.wish; w != nil && w.Publication != nil && w.Publication.Staging != nil {
		return w.Publication.Staging.Path, w.Publication.Epoch
	}
	return "", fsm.Epoch{}
}
