package raftnode

import (
	"context"
	"sync/atomic"
)

// groupsUnderWay is how many groups may be under way: one is written to one disk
// while the one before is written to another.
const groupsUnderWay = 2

// queue gathers what waits together into groups. It is clocked by itself: the
// longer the groups under way take, the larger the next one is.
type queue[T any] struct {
	waiting chan T
	largest int
	freed   chan struct{}
	under   atomic.Int64
}

func newQueue[T any](length, largest int) *queue[T] {
	return &queue[T]{waiting: make(chan T, length), largest: largest, freed: make(chan struct{}, 1)}
}

// run hands out groups until the member ends. send returns soon; ended is called
// when the group is no longer under way.
func (q *queue[T]) run(closing context.Context, send func(group []T, ended func())) {
	for {
		select {
		case first := <-q.waiting:
			group := q.gather(closing, first)
			q.under.Add(1)
			send(group, q.ended)
		case <-closing.Done():
			return
		}
	}
}

func (q *queue[T]) ended() {
	q.under.Add(-1)
	select {
	case q.freed <- struct{}{}:
	default:
	}
}

// gather takes what waits, and goes on taking while enough groups are under way.
func (q *queue[T]) gather(closing context.Context, first T) []T {
	group := []T{first}
	for len(group) < q.largest && closing.Err() == nil {
		if q.under.Load() < groupsUnderWay {
			return q.rest(group)
		}
		select {
		case next := <-q.waiting:
			group = append(group, next)
		case <-q.freed:
		case <-closing.Done():
		}
	}
	return group
}

// rest adds what waits at this moment.
func (q *queue[T]) rest(group []T) []T {
	for len(group) < q.largest {
		select {
		case next := <-q.waiting:
			group = append(group, next)
		default:
			return group
		}
	}
	return group
}
