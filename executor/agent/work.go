package agent

import (
	"context"
	"errors"
)

// work reconciles queued entries, one after the other. An entry that take cannot get is queued
// again by its holder.
func work[K comparable, T any](q *workQueue[K], take func(K) *T, look, leave func(*T)) {
	for {
		id, ok := q.get()
		if !ok {
			return
		}
		if t := take(id); t != nil {
			look(t)
			leave(t)
		}
	}
}

// looked is one reconciliation of an entry that the worker has taken.
type looked struct {
	open     func() error
	converge func(context.Context) error
	done     func()
	failed   func(error) // reports the error, and queues the entry again
}

// look opens and converges. An entry that waits for a lock is queued by that lock's holder.
func (en *env) look(l looked) {
	err := l.open()
	if err == nil {
		err = l.converge(en.ctx)
	}
	switch {
	case err == nil:
		l.done()
	case en.ctx.Err() != nil, errors.Is(err, errRequeued):
	default:
		l.failed(err)
	}
}
