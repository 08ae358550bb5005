package raftnode

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// verifies are the questions to raft whether this member leads. Raft answers none that is
// in its queue when it shuts down, and who asked would wait for ever: no question is put
// once the member ends, and raft is shut down behind the last answer.
type verifies struct {
	mu    sync.Mutex
	ended bool
	open  sync.WaitGroup
}

// ask puts a question and waits for its answer.
func (v *verifies) ask(question func() error) error {
	v.mu.Lock()
	if v.ended {
		v.mu.Unlock()
		return raft.ErrRaftShutdown
	}
	v.open.Add(1)
	v.mu.Unlock()
	defer v.open.Done()
	return question()
}

// end lets no question be put any more, and waits for the answers for a while: a main loop
// that is blocked gives none.
func (v *verifies) end(patience time.Duration) {
	v.mu.Lock()
	v.ended = true
	v.mu.Unlock()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		v.open.Wait()
	}()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-answered:
	case <-t.C:
	}
}

// verifyLeader has raft ask a quorum whether this member leads.
func (m *Member) verifyLeader() error {
	return m.verifies.ask(func() error { return m.raft.VerifyLeader().Error() })
}
