package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raftCalls tracks calls that wait in raft's queues. Raft never completes those when it shuts down,
// and who waits for them would wait indefinitely: no call is made once the member closes, and
// raft is shut down after the last one returned.
type raftCalls struct {
	mu      sync.Mutex
	closed  bool
	pending sync.WaitGroup
}

// begin admits a call, whose completion end reports; it fails once the member closes.
func (c *raftCalls) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return raft.ErrRaftShutdown
	}
	c.pending.Add(1)
	return nil
}

func (c *raftCalls) end() { c.pending.Done() }

// do makes one call.
func (c *raftCalls) do(call func() error) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.end()
	return call()
}

// drain admits no more calls, and waits for the running ones up to the timeout: a blocked
// main loop completes none.
func (c *raftCalls) drain(timeout time.Duration) {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		c.pending.Wait()
	}()
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-drained:
	case <-t.C:
	}
}
