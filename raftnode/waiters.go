package raftnode

import (
	"container/heap"
	"context"
	"sync"
	"sync/atomic"
)

// waiters wakes who waits for an index, and only them.
type waiters struct {
	reached atomic.Uint64
	mu      sync.Mutex
	queue   waitQueue
}

type waiter struct {
	index uint64
	done  chan struct{}
	place int // in the queue; below zero when it left
}

// advance tells that everything up to index is applied. It never goes back.
func (w *waiters) advance(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if index <= w.reached.Load() {
		return
	}
	w.reached.Store(index)
	for len(w.queue) > 0 && w.queue[0].index <= index {
		close(heap.Pop(&w.queue).(*waiter).done)
	}
}

// wait returns when the index is reached, or with the context's cause.
func (w *waiters) wait(ctx context.Context, index uint64) error {
	if w.reached.Load() >= index {
		return nil
	}
	w.mu.Lock()
	if w.reached.Load() >= index {
		w.mu.Unlock()
		return nil
	}
	self := &waiter{index: index, done: make(chan struct{})}
	heap.Push(&w.queue, self)
	w.mu.Unlock()
	select {
	case <-self.done:
		return nil
	case <-ctx.Done():
		w.leave(self)
		return context.Cause(ctx)
	}
}

func (w *waiters) leave(self *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if self.place >= 0 {
		heap.Remove(&w.queue, self.place)
	}
}

// waitQueue is a heap.Interface, lowest index first.
type waitQueue []*waiter

func (q waitQueue) Len() int           { return len(q) }
func (q waitQueue) Less(i, j int) bool { return q[i].index < q[j].index }
func (q waitQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push is heap.Interface's.
func (q *waitQueue) Push(x any) {
	w := x.(*waiter)
	w.place = len(*q)
	*q = append(*q, w)
}

// Pop is heap.Interface's.
func (q *waitQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	last.place = -1
	return last
}
