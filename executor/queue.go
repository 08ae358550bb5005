package executor

import (
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// queue is the volumes to look at, each once.
type queue struct {
	mu     sync.Mutex
	filled *sync.Cond
	order  []fsm.VolumeID
	queued map[fsm.VolumeID]bool
	closed bool
}

func newQueue() *queue {
	q := &queue{queued: map[fsm.VolumeID]bool{}}
	q.filled = sync.NewCond(&q.mu)
	return q
}

func (q *queue) add(id fsm.VolumeID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.queued[id] && !q.closed {
		q.queued[id] = true
		q.order = append(q.order, id)
		q.filled.Signal()
	}
}

func (q *queue) addAfter(id fsm.VolumeID, d time.Duration) {
	time.AfterFunc(d, func() { q.add(id) })
}

// get waits for a volume; false when the queue was closed.
func (q *queue) get() (fsm.VolumeID, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.order) == 0 && !q.closed {
		q.filled.Wait()
	}
	if q.closed {
		return "", false
	}
	id := q.order[0]
	q.order = q.order[1:]
	delete(q.queued, id)
	return id, true
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}
