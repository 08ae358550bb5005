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
type findFunc func(ctx context.Context, r snapshotPair, from int64, yield func(executor.Extent) error) error

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
func (w *mapRunCache) read(ctx context.Context, r snapshotPair, from int64, find findFunc, yield func(executor.Extent) bool) error {
	for at := max(from, 0); ; {
		mr := w.acquire(ctx, r, at, find)
		next, restart, err := mr.read(ctx, at, yield)
		w.release(r, mr, err)
		if err != nil || !restart {
			return err
		}
		at = next
	}
}

// acquire joins the run that covers an offset, or starts one.
func (w *mapRunCache) acquire(ctx context.Context, r snapshotPair, from int64, find findFunc) *mapRun {
	w.mu.Lock()
	defer w.mu.Unlock()
	mr := w.runs[r]
	if mr == nil || !mr.covers(from) {
		w.drop(r, mr)
		w.evictIdle()
		mr = w.start(ctx, r, from, find)
		w.runs[r] = mr
	}
	mr.users++
	mr.timer.Stop()
	return mr
}

// release keeps the run for mapRunTTL, unless it failed.
func (w *mapRunCache) release(r snapshotPair, mr *mapRun, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mr.users--
	mr.lastUsed = time.Now()
	switch {
	case err != nil && mr.failed(), w.runs[r] != mr:
		w.drop(r, mr)
	case mr.users == 0:
		mr.timer.Reset(w.ttl)
	}
}

func (w *mapRunCache) start(ctx context.Context, r snapshotPair, from int64, find findFunc) *mapRun {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	mr := &mapRun{from: from, cancel: cancel, changed: make(chan struct{})}
	mr.timer = time.AfterFunc(w.ttl, func() { w.expire(r, mr) })
	go func() { mr.finish(find(ctx, r, from, func(e executor.Extent) error { return mr.add(e, w.limit) })) }()
	return mr
}

func (w *mapRunCache) expire(r snapshotPair, mr *mapRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if mr.users == 0 {
		w.drop(r, mr)
	}
}

// drop stops a run unless it still has readers, and offers it to no further ones.
func (w *mapRunCache) drop(r snapshotPair, mr *mapRun) {
	if mr == nil {
		return
	}
	if w.runs[r] == mr {
		delete(w.runs, r)
	}
	if mr.users == 0 {
		mr.timer.Stop()
		mr.cancel()
	}
}

// evictIdle makes room for one more run by dropping the least recently used one.
func (w *mapRunCache) evictIdle() {
	var oldest *mapRun
	var key snapshotPair
	idle := 0
	for r, mr := range w.runs {
		if mr.users > 0 {
			continue
		}
		if idle++; oldest == nil || mr.lastUsed.Before(oldest.lastUsed) {
			oldest, key = mr, r
		}
	}
	if idle >= maxIdleRuns {
		w.drop(key, oldest)
	}
}
