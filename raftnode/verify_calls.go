package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// verifyCalls are the questions to raft whether this member leads. Raft answers none that is
// in its queue when it shuts down, and who asked would wait for ever: no question is put
// once the member ends, and raft is shut down behind the last answer.
type verifyCalls struct {
	mu      sync.Mutex
	closed  bool
	pending sync.WaitGroup
}

// ask puts a question and waits for its answer.
func (v *verifyCalls) do(verify func() error) error {
	v.mu.Lock()
	if v.closed {
		v.mu.Unlock()
		return raft.ErrRaftShutdown
	}
	v.pending.Add(1)
	v.mu.Unlock()
	defer v.pending.Done()
	return verify()
}

// end lets no question be put any more, and waits for the answers for a while: a main loop
// that is blocked gives none.
func (v *verifyCalls) drain(timeout time.Duration) {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		v.pending.Wait()
	}()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-drained:
	case <-t.C:
	}
}
