package lvm

import (
	"context"
	"fmt"
)

// changeLock is held while this process changes the pool; LVM's own lock is per volume group. Taking
// it also prepares a pool that this process has not used yet.
type changeLock struct {
	*thinPool
	metadata *metadataSnap
	held     chan struct{}
}

func newChangeLock(p *thinPool, metadata *metadataSnap) *changeLock {
	return &changeLock{p, metadata, make(chan struct{}, 1)}
}

// fresh is for callers that create or remove something: it holds the lock until done is called, and
// returns the state read from LVM under it.
func (l *changeLock) fresh(ctx context.Context) (done func(), state *poolState, err error) {
	return l.acquire(ctx, l.states.refresh)
}

// recent is for callers that neither create nor remove anything: it holds the lock, but a cached
// state is enough.
func (l *changeLock) recent(ctx context.Context) (done func(), state *poolState, err error) {
	return l.acquire(ctx, l.states.get)
}

func (l *changeLock) acquire(ctx context.Context, read func(context.Context) (*poolState, error)) (done func(), state *poolState, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("change pool %s: %w", l.name(), err)
	}
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("wait for pool %s: %w", l.name(), ctx.Err())
	}
	done = func() { <-l.held }
	if state, err = l.verifyIdentity(read(ctx)); err == nil {
		state, err = l.prepare(ctx, state)
	}
	if err == nil {
		state, err = l.finishReverts(ctx, state)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return done, state, nil
}
