package raftnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// retrier repeats what needs the leader until it is answered.
type retrier struct {
	*core
	checkAdmitted func() error // nil once this member may serve
}

// retry repeats attempts, at each change of the leader and after short pauses, until one succeeds
// or is refused for good. It gives up when no leader was known for leaderlessTimeout, or when
// attempts failed for twice that (S28).
func (r *retrier) retry(ctx context.Context, attempt func(context.Context, *leaderInfo) error) error {
	var failingSince time.Time // since when all attempts failed
	for tries := 0; ; tries++ {
		v := r.tracker.current()
		err := r.tryOnce(ctx, v, attempt)
		switch {
		case err == nil:
			return nil
		case r.lifetime.Err() != nil:
			return fmt.Errorf("%w: %w", ErrShutdown, err)
		case ctx.Err() != nil:
			return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
		case errors.Is(err, ErrDiskFull), errors.Is(err, ErrDiverged), errors.Is(err, ErrRefused):
			return err
		}
		if failingSince.IsZero() {
			failingSince = time.Now()
		}
		if r.tracker.current().leaderlessFor() > r.cfg.leaderlessTimeout() || time.Since(failingSince) > 2*r.cfg.leaderlessTimeout() {
			return err
		}
		r.backOff(ctx, v, tries)
	}
}

// tryOnce gives one attempt a context that ends with the leader's term and with the member.
func (r *retrier) tryOnce(ctx context.Context, v *leaderInfo, attempt func(context.Context, *leaderInfo) error) error {
	if r.lifetime.Err() != nil {
		return ErrShutdown
	}
	if err := r.checkAdmitted(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if v.addr == "" {
		return fmt.Errorf("%w: no leader is known", ErrNotLeader)
	}
	if v.leading { // local attempts end by themselves with leadership and with the member
		return attempt(ctx, v)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(r.lifetime, func() { cancel(ErrShutdown) })
	defer stop()
	changed := context.AfterFunc(v.ctx, func() { cancel(errLeaderChanged) })
	defer changed()
	return attempt(ctx, v)
}

// backOff waits for another leader, or for a pause that grows with the tries, with jitter.
func (r *retrier) backOff(ctx context.Context, v *leaderInfo, tries int) {
	maxPause := time.Millisecond << min(tries+1, 6)
	if v.addr == "" {
		maxPause = 50 * time.Millisecond
	}
	t := time.NewTimer(maxPause/2 + rand.N(maxPause/2+1))
	defer t.Stop()
	select {
	case <-t.C:
	case <-v.ctx.Done():
	case <-ctx.Done():
	case <-r.lifetime.Done():
	}
}
