package executor

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// watchFrozen looks each second for frozen resources and asks about them itself: a
// handler that died is not called again, and one may never have been called (S6).
func (e *Executor) watchFrozen() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-ticker.C:
		}
		suspects, err := e.suspects(e.ctx)
		if err != nil {
			e.Logger.Warn("the frozen resources are not known", "error", err)
		}
		for _, v := range suspects {
			e.watchOne(v)
		}
	}
}

// watchOne looks at one of them, without keeping the others waiting.
func (e *Executor) watchOne(v *volume) {
	e.mu.Lock()
	busy := v.replica.question != nil || v.watched
	v.watched = v.watched || !busy
	e.mu.Unlock()
	if busy {
		return
	}
	e.work.Go(func() {
		defer func() {
			e.mu.Lock()
			v.watched = false
			e.mu.Unlock()
		}()
		if err := e.finishFrozen(e.ctx, v); err != nil && e.ctx.Err() == nil {
			e.logger(v).Warn("the frozen volume stays frozen", "error", err)
		}
		e.wakeUp(v)
	})
}

// finishFrozen ends a freeze as its verdict says. ResumeIO without a detached disk is
// for this process's own question of this loss, that nobody else will finish (S9).
func (e *Executor) finishFrozen(ctx context.Context, v *volume) error {
	m, err := e.mirror(ctx, v)
	if err != nil {
		return err
	}
	e.watchLoser(v, &m, time.Now())
	if !m.Suspended || e.frozenFor(v, time.Now()) < e.HandlerGrace {
		return nil
	}
	q, err := e.ask(ctx, v, false)
	if q == nil || err != nil {
		return err
	}
	select {
	case <-q.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case q.verdict == verdictLost, q.verdict == verdictRefused && e.isOver(v):
		return e.endFreeze(ctx, v)
	case q.verdict != verdictGoOn || q.promoting || e.isHandled(q):
		return nil
	}
	e.resuming(v, true) // from before it is seen that the verdict is of use
	defer e.resuming(v, false)
	if verdict, err := e.stillOfUse(ctx, v, q); verdict != verdictGoOn || err != nil {
		return err
	}
	e.hit("resume-io.before")
	err = e.Replicator.ResumeIO(ctx, v.id)
	e.hit("resume-io.after")
	return err
}

// resuming notes that this process ends a freeze. The peer may return and be lost again
// after the last look, and the kernel would go on under the old verdict all the same. That
// harms nobody as long as the log calls the peer Outdated: so it hears nothing else (S7).
func (e *Executor) resuming(v *volume, begins bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v.replica.resuming = begins
	if !begins {
		v.replica.resumed++
	}
}

// frozenFor is since when the volume is seen frozen. The kernel's handler, which is on
// its way at first, is to bring the verdict: only then does the kernel itself keep that
// the peer is outdated, over a boot too.
func (e *Executor) frozenFor(v *volume, now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if v.replica.frozenSince.IsZero() {
		v.replica.frozenSince = now
	}
	return now.Sub(v.replica.frozenSince)
}

// isHandled: the kernel's handler waits for the same answer, and will say it.
func (e *Executor) isHandled(q *question) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return q.handlers > 0
}

// isOver: nobody may write to the volume on this host any more, by the log's word of
// this session.
func (e *Executor) isOver(v *volume) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := v.wish
	if e.session.number == 0 || !e.session.adopted || w == nil {
		return false
	}
	return w.Goal == fsm.GoalRemove || w.Teardown != nil && w.Publication == nil
}
