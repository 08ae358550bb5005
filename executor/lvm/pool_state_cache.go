package lvm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stateTTL is how long a cached state is used while this process changes nothing; no other process
// changes what is ours. Callers that create or remove something always read it again.
const stateTTL = 10 * time.Second

// stateCache keeps the last state. Concurrent callers share one command.
type stateCache struct {
	query     func(ctx context.Context) (*poolState, error)
	querySlot chan struct{} // held by the caller that queries LVM

	mu      sync.Mutex
	changes uint64 // counts the changes
	cached  cachedState
}

type cachedState struct {
	state   *poolState
	err     error
	at      time.Time
	changes uint64 // the count before the query
}

func newStateCache(query func(ctx context.Context) (*poolState, error)) *stateCache {
	return &stateCache{query: query, querySlot: make(chan struct{}, 1)}
}

// invalidate records that something was, or is about to be, changed: older states are not used any
// more.
func (c *stateCache) invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
}

// store keeps the state after a change that the holder of the change lock made, so that LVM need
// not be queried.
func (c *stateCache) store(state *poolState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cached = cachedState{state: state, at: time.Now(), changes: c.changes}
}

// refresh returns a state whose query began after the call.
func (c *stateCache) refresh(ctx context.Context) (*poolState, error) {
	c.invalidate()
	return c.get(ctx)
}

// get returns a state that is not older than stateTTL and includes every change.
func (c *stateCache) get(ctx context.Context) (*poolState, error) {
	if a, ok := c.lookup(); ok {
		return a.state, a.err
	}
	select {
	case c.querySlot <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for lvs: %w", ctx.Err())
	}
	defer func() { <-c.querySlot }()
	if a, ok := c.lookup(); ok {
		return a.state, a.err
	}
	c.mu.Lock()
	answer := cachedState{at: time.Now(), changes: c.changes}
	c.mu.Unlock()
	answer.state, answer.err = c.query(ctx)
	if answer.err == nil || errors.Is(answer.err, errNoGroup) {
		c.mu.Lock()
		c.cached = answer
		c.mu.Unlock()
	}
	return answer.state, answer.err
}

func (c *stateCache) lookup() (cachedState, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cached, c.cached.changes == c.changes && time.Since(c.cached.at) < stateTTL
}
