package raftnode

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// reader answers linearizable reads (S139).
type reader struct {
	*core
	retrier *retrier

	leaderReads, followerReads *readBatcher
	readGate                   *termGate
	caughtUp                   atomic.Bool // with what was committed when it started
}

// read is Member.Read.
func (r *reader) read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	if err := r.catchUp(ctx); err != nil {
		return 0, err
	}
	if r.machine.halted.Load() {
		return 0, fmt.Errorf("%w: this member has stopped", ErrDiverged)
	}
	return r.machine.view(fn)
}

// catchUp returns when this member has applied everything acknowledged before.
func (r *reader) catchUp(ctx context.Context) error {
	if plantedbug.Is(plantedbug.StaleFollowerRead) {
		return nil
	}
	var index uint64
	err := r.retrier.retry(ctx, func(ctx context.Context, v *leaderInfo) (err error) {
		if r.machine.halted.Load() {
			return fmt.Errorf("%w: this member has stopped", ErrDiverged)
		}
		if v.leading {
			index, err = r.leaderReads.wait(ctx)
		} else {
			index, err = r.followerReads.wait(ctx)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	if err := r.waitApplied(ctx, index); err != nil {
		return fmt.Errorf("read the state: %w: wait for index %d: %w", ErrNotLeader, index, err)
	}
	return nil
}

// trackCatchUp records when this member has applied what was committed at its start.
func (r *reader) trackCatchUp(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.catchUp(ctx); err == nil {
			r.caughtUp.Store(true)
			return
		}
		sleep(ctx, 50*time.Millisecond)
	}
}
