package executor

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// watchSuspended looks each second for frozen resources and asks about them itself: a
// handler that died is not called again, and one may never have been called (S6).
func (e *Executor) watchSuspended() {
	ticker := time.NewTicker(suspensionInterval)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		}
		volumes, err := e.suspendedOrVictims(e.ctx)
		if err != nil {
			e.Logger.Warn("the frozen resources are not known", "error", err)
		}
		for _, v := range volumes {
			e.watchSuspendedVolume(v)
		}
	}
}

// watchSuspendedVolume looks at one of them, without keeping the others waiting.
func (e *Executor) watchSuspendedVolume(v *volume) {
	e.mu.Lock()
	busy := v.replica.fencePeerRequest != nil || v.watchingSuspension
	v.watchingSuspension = v.watchingSuspension || !busy
	e.mu.Unlock()
	if busy {
		return
	}
	e.wg.Go(func() {
		defer func() {
			e.mu.Lock()
			v.watchingSuspension = false
			e.mu.Unlock()
		}()
		if err := e.resolveSuspension(e.ctx, v); err != nil && e.ctx.Err() == nil {
			e.logger(v).Warn("the frozen volume stays frozen", "error", err)
		}
		e.enqueue(v)
	})
}

// resolveSuspension ends a freeze as its verdict says. ResumeIO without a detached disk is
// for this process's own question of this loss, that nobody else will finish (S9).
func (e *Executor) resolveSuspension(ctx context.Context, v *volume) error {
	m, err := e.resourceStatus(ctx, v)
	if err != nil {
		return err
	}
	e.watchVictim(v, &m, time.Now())
	if !m.Suspended || e.suspendedFor(v, time.Now()) < e.HandlerGrace {
		return nil
	}
	req, err := e.requestVerdict(ctx, v, false)
	if req == nil || err != nil {
		return err
	}
	select {
	case <-req.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case req.verdict == verdictSelfOutdated, req.verdict == verdictRefused && e.isRevoked(v):
		return e.endSuspension(ctx, v)
	case req.verdict != verdictPeerOutdated || req.promoting || e.hasHandler(req):
		return nil
	}
	e.setResuming(v, true) // from before it is seen that the verdict is of use
	defer e.setResuming(v, false)
	if verdict, err := e.verdictStillHolds(ctx, v, req); verdict != verdictPeerOutdated || err != nil {
		return err
	}
	e.hitFaultPoint("resume-io.before")
	err = e.Replicator.ResumeIO(ctx, v.id)
	e.hitFaultPoint("resume-io.after")
	return err
}

// resuming notes that this process ends a freeze. The peer may return and be lost again
// after the last look, and the kernel would go on under the old verdict all the same. That
// harms nobody as long as the log calls the peer Outdated: so it hears nothing else (S7).
func (e *Executor) setResuming(v *volume, begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.replica.resuming = begins
	if !begins {
		v.replica.resumeCount++
	}
}

// suspendedFor is since when the volume is seen frozen. The kernel's handler, which is on
// its way at first, is to bring the verdict: only then does the kernel itself keep that
// the peer is outdated, over a boot too.
func (e *Executor) suspendedFor(v *volume, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.replica.suspendedSince.IsZero() {
		v.replica.suspendedSince = now
	}
	return now.Sub(v.replica.suspendedSince)
}

// hasHandler: the kernel's handler waits for the same answer, and will say it.
func (e *Executor) hasHandler(req *fencePeerRequest) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return req.handlers > 0
}

// isRevoked: nobody may write to the volume on this host any more, by the log's word of
// this session.
func (e *Executor) isRevoked(v *volume) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := v.desired
	if e.session.number == 0 || !e.session.adopted || w == nil {
		return false
	}
	return w.Goal == fsm.GoalRemove || w.Teardown != nil && w.Publication == nil
}
