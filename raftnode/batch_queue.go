package raftnode

import (
	"context"
	"sync/atomic"
)

// maxBatchesInFlight is how many groups may be under way: one is written to one disk
// while the one before is written to another.
const maxBatchesInFlight = 2

// queue gathers what waits together into groups. It is clocked by itself: the
// longer the groups under way take, the larger the next one is.
type batchQueue[T any] struct {
	pending   chan T
	maxBatch  int
	slotFreed chan struct{}
	inFlight  atomic.Int64
}

func newBatchQueue[T any](capacity, maxBatch int) *batchQueue[T] {
	return &batchQueue[T]{pending: make(chan T, capacity), maxBatch: maxBatch, slotFreed: make(chan struct{}, 1)}
}

// run hands out groups until the member ends. send returns soon; ended is called
// when the group is no longer under way.
func (q *batchQueue[T]) run(lifetime context.Context, send func(batch []T, done func())) {
	for {
		select {
		case first := <-q.pending:
			batch := q.collect(lifetime, first)
			q.inFlight.Add(1)
			send(batch, q.batchDone)
		case <-lifetime.Done():
			return
		}
	}
}

func (q *batchQueue[T]) batchDone() {
	q.inFlight.Add(-1)
	select {
	case q.slotFreed <- struct{}{}:
	default:
	}
}

// collect takes what waits, and goes on taking while enough groups are under way.
func (q *batchQueue[T]) collect(lifetime context.Context, first T) []T {
	batch := []T{first}
	for len(batch) < q.maxBatch && lifetime.Err() == nil {
		if q.inFlight.Load() < maxBatchesInFlight {
			return q.drainPending(batch)
		}
		select {
		case next := <-q.pending:
			batch = append(batch, next)
		case <-q.slotFreed:
		case <-lifetime.Done():
		}
	}
	return batch
}

// rest adds what waits at this moment.
func (q *batchQueue[T]) drainPending(batch []T) []T {
	for len(batch) < q.maxBatch {
		select {
		case next := <-q.pending:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}
