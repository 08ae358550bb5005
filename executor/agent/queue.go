package agent

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sortedKeys are a map's keys in order: what is queued or done for each is done in the same order
// in each run, so that a simulated run can be repeated.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// workQueue is the volumes, or the snapshots, to reconcile, each at most once.
type workQueue[K comparable] struct {
	mu     sync.Mutex
	filled *sync.Cond
	order  []K
	queued map[K]bool
	closed bool
}

func newWorkQueue[K comparable]() *workQueue[K] {
	q := &workQueue[K]{queued: map[K]bool{}}
	q.filled = sync.NewCond(&q.mu)
	return q
}

func (q *workQueue[K]) add(id K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.queued[id] && !q.closed {
		q.queued[id] = true
		q.order = append(q.order, id)
		q.filled.Signal()
	}
}

func (q *workQueue[K]) addAfter(id K, d time.Duration) {
	time.AfterFunc(d, func() { q.add(id) })
}

// get waits for the next; ok is false when the queue was closed.
func (q *workQueue[K]) get() (id K, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.order) == 0 && !q.closed {
		q.filled.Wait()
	}
	if q.closed {
		return id, false
	}
	id = q.order[0]
	q.order = q.order[1:]
	delete(q.queued, id)
	return id, true
}

func (q *workQueue[K]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}
