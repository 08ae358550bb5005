package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// verifyCalls tracks calls of raft.VerifyLeader. Raft never completes those in its queue when
// it shuts down, and their callers would wait indefinitely: no call is made once the member
// closes, and raft is shut down after the last one returned.
type verifyCalls struct {
	mu      sync.Mutex
	closed  bool
	pending sync.WaitGroup
}

// do runs one verification.
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

// drain admits no more calls, and waits for the running ones up to the timeout: a blocked
// main loop completes none.
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
