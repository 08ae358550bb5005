package raftnode

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
)

// indexWaiters wakes the waiters of the indexes that were reached, and no others.
type indexWaiters struct {
	reached atomic.Uint64
	mu      sync.Mutex
	queue   waiterHeap
}

type indexWaiter struct {
	index     uint64
	done      chan struct{}
	heapIndex int // position in the heap; negative once removed
}

// advance tells that everything up to index is applied. It never goes back.
func (w *indexWaiters) advance(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if index <= w.reached.Load() {
		return
	}
	w.reached.Store(index)
	for len(w.queue) > 0 && w.queue[0].index <= index {
		close(heap.Pop(&w.queue).(*indexWaiter).done)
	}
}

// wait returns when the index is reached, or with the context's cause.
func (w *indexWaiters) wait(ctx context.Context, index uint64) error {
	if w.reached.Load() >= index {
		return nil
	}
	w.mu.Lock()
	if w.reached.Load() >= index {
		w.mu.Unlock()
		return nil
	}
	waiter := &indexWaiter{index: index, done: make(chan struct{})}
	heap.Push(&w.queue, waiter)
	w.mu.Unlock()
	select {
	case <-waiter.done:
		return nil
	case <-ctx.Done():
		w.remove(waiter)
		return context.Cause(ctx)
	}
}

func (w *indexWaiters) remove(waiter *indexWaiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if waiter.heapIndex >= 0 {
		heap.Remove(&w.queue, waiter.heapIndex)
	}
}

// waiterHeap is a heap.Interface, lowest index first.
type waiterHeap []*indexWaiter

func (q waiterHeap) Len() int           { return len(q) }
func (q waiterHeap) Less(i, j int) bool { return q[i].index < q[j].index }
func (q waiterHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].heapIndex, q[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (q *waiterHeap) Push(x any) {
	w := x.(*indexWaiter)
	w.heapIndex = len(*q)
	*q = append(*q, w)
}

// Pop implements heap.Interface.
func (q *waiterHeap) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	last.heapIndex = -1
	return last
}
