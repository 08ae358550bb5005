package raftnode

import (
	"context"
	"fmt"
	"sync"
)

// readBatcher lets reads that wait at the same time share one ReadIndex.
type readBatcher struct {
	fetchIndex func() (uint64, error)

	mu      sync.Mutex
	next    *readBatch
	running bool
}

type readBatch struct {
	done  chan struct{}
	index uint64
	err   error
}

// wait waits for the next batch to start and end: the one in flight started before this
// read did.
func (r *readBatcher) wait(ctx context.Context) (uint64, error) {
	r.mu.Lock()
	if r.next == nil {
		r.next = &readBatch{done: make(chan struct{})}
	}
	batch := r.next
	if !r.running {
		r.running = true
		go r.run()
	}
	r.mu.Unlock()
	select {
	case <-batch.done:
		return batch.index, batch.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrNotLeader, context.Cause(ctx))
	}
}

func (r *readBatcher) run() {
	for {
		r.mu.Lock()
		batch := r.next
		r.next = nil
		r.running = batch != nil
		r.mu.Unlock()
		if batch == nil {
			return
		}
		batch.index, batch.err = r.fetchIndex()
		close(batch.done)
	}
}
