package agent

import (
	"context"
	"errors"
)

// work has one queued thing after the other looked at by whoever can take it: what is
// taken by somebody else he queues again when he leaves it.
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

// looked is one look of a worker at a thing that it has taken.
type looked struct {
	open     func() error
	converge func(context.Context) error
	done     func()
	failed   func(error) // says why, and queues it again
}

// look opens and converges. What waits for somebody else is queued by him.
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
