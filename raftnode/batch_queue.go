package raftnode

import (
	"context"
	"sync/atomic"
)

// maxBatchesInFlight is how many batches may be in flight: one is written to one
// member's disk while the one before is written to another's.
const maxBatchesInFlight = 2

// batchQueue collects what waits at the same time into batches. It is self-clocking: the
// longer the batches in flight take, the larger the next one is.
type batchQueue[T any] struct {
	pending   chan T
	maxBatch  int
	slotFreed chan struct{}
	inFlight  atomic.Int64
}

func newBatchQueue[T any](capacity, maxBatch int) *batchQueue[T] {
	return &batchQueue[T]{pending: make(chan T, capacity), maxBatch: maxBatch, slotFreed: make(chan struct{}, 1)}
}

// run sends batches until the member closes. send must return soon; it calls done when
// its batch is no longer in flight.
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

// collect takes what waits, and more for as long as enough batches are in flight.
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

// drainPending adds what waits at this moment.
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
