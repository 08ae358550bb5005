package lvm

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
)

const (
	// mapRunTTL is how long the extents are kept for the next page of a stream, and how long the
	// tools continue without a reader.
	mapRunTTL = 2 * time.Minute
	// maxRunExtents is how many extents are kept of one stream: 16 MiB. A stream with more runs
	// the tools again, once for each further maxRunExtents.
	maxRunExtents = 1 << 20
	// maxIdleRuns is how many runs without a reader are kept.
	maxIdleRuns = 8
)

// findFunc yields the extents of a pair from an offset on.
type findFunc func(ctx context.Context, pair snapshotPair, from int64, yield func(executor.Extent) error) error

// mapRunCache lets the pages of a stream share one run of the tools, which always start at block
// 0, however late the page begins. Snapshots do not change, so the result stays valid.
type mapRunCache struct {
	mu    sync.Mutex
	runs  map[snapshotPair]*mapRun
	limit int // of extents
	ttl   time.Duration
}

func newMapRunCache() *mapRunCache {
	return &mapRunCache{runs: map[snapshotPair]*mapRun{}, limit: maxRunExtents, ttl: mapRunTTL}
}

// read yields a pair's extents from an offset on. When the context ends before all are found, the
// error is an *executor.InterruptedError and the run continues for the next reader.
func (c *mapRunCache) read(ctx context.Context, pair snapshotPair, from int64, find findFunc, yield func(executor.Extent) bool) error {
	for at := max(from, 0); ; {
		run := c.acquire(ctx, pair, at, find)
		next, restart, err := run.read(ctx, at, yield)
		c.release(pair, run, err)
		if err != nil || !restart {
			return err
		}
		at = next
	}
}

// acquire joins the run that covers an offset, or starts one.
func (c *mapRunCache) acquire(ctx context.Context, pair snapshotPair, from int64, find findFunc) *mapRun {
	c.mu.Lock()
	defer c.mu.Unlock()
	run := c.runs[pair]
	if run == nil || !run.covers(from) {
		c.drop(pair, run)
		c.evictIdle()
		run = c.start(ctx, pair, from, find)
		c.runs[pair] = run
	}
	run.users++
	run.timer.Stop()
	return run
}

// release keeps the run for mapRunTTL, unless it failed.
func (c *mapRunCache) release(pair snapshotPair, run *mapRun, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	run.users--
	run.lastUsed = time.Now()
	switch {
	case err != nil && run.failed(), c.runs[pair] != run:
		c.drop(pair, run)
	case run.users == 0:
		run.timer.Reset(c.ttl)
	}
}

func (c *mapRunCache) start(ctx context.Context, pair snapshotPair, from int64, find findFunc) *mapRun {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	run := &mapRun{from: from, cancel: cancel, changed: make(chan struct{})}
	run.timer = time.AfterFunc(c.ttl, func() { c.expire(pair, run) })
	go func() {
		run.finish(find(ctx, pair, from, func(e executor.Extent) error { return run.add(e, c.limit) }))
	}()
	return run
}

func (c *mapRunCache) expire(pair snapshotPair, run *mapRun) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if run.users == 0 {
		c.drop(pair, run)
	}
}

// drop stops a run unless it still has readers, and offers it to no further ones.
func (c *mapRunCache) drop(pair snapshotPair, run *mapRun) {
	if run == nil {
		return
	}
	if c.runs[pair] == run {
		delete(c.runs, pair)
	}
	if run.users == 0 {
		run.timer.Stop()
		run.cancel()
	}
}

// evictIdle makes room for one more run by dropping the least recently used one.
func (c *mapRunCache) evictIdle() {
	var oldest *mapRun
	var key snapshotPair
	idle := 0
	for pair, run := range c.runs {
		if run.users > 0 {
			continue
		}
		if idle++; oldest == nil || run.lastUsed.Before(oldest.lastUsed) {
			oldest, key = run, pair
		}
	}
	if idle >= maxIdleRuns {
		c.drop(key, oldest)
	}
}
