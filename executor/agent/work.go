package agent

import (
	"context"
	"errors"
)

// work reconciles queued entries, one after the other. An entry that take cannot get is queued
// again by its holder.
func work[K comparable, T any](q *workQueue[K], take func(K) *T, reconcile, release func(*T)) {
	for {
		id, ok := q.get()
		if !ok {
			return
		}
		if t := take(id); t != nil {
			reconcile(t)
			release(t)
		}
	}
}

// reconciliation is what is done with one entry that the worker has taken.
type reconciliation struct {
	open     func() error
	converge func(context.Context) error
	done     func()
	failed   func(error) // reports the error, and queues the entry again
}

// runReconciliation opens and converges. An entry that waits for a lock is queued by that lock's holder.
func (en *env) runReconciliation(r reconciliation) {
	err := r.open()
	if err == nil {
		err = r.converge(en.ctx)
	}
	switch {
	case err == nil:
		r.done()
	case en.ctx.Err() != nil, errors.Is(err, errRequeued):
	default:
		r.failed(err)
	}
}
