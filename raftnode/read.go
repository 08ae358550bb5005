package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// Read calls fn with a state that holds everything acknowledged before the call.
// fn must not keep the state. It returns the index that was read at.
func (m *Member) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	if err := m.catchUp(ctx); err != nil {
		return 0, err
	}
	if m.machine.halted.Load() {
		return 0, fmt.Errorf("%w: this member has stopped", ErrDiverged)
	}
	return m.machine.view(fn)
}

// catchUp returns when this member has applied everything acknowledged before.
func (m *Member) catchUp(ctx context.Context) error {
	var index uint64
	err := m.retry(ctx, func(ctx context.Context, v *leaderInfo) (err error) {
		if m.machine.halted.Load() {
			return fmt.Errorf("%w: this member has stopped", ErrDiverged)
		}
		if v.leading {
			index, err = m.leaderReads.wait(ctx)
		} else {
			index, err = m.followerReads.wait(ctx)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the state: %w", err)
	}
	if err := m.waitApplied(ctx, index); err != nil {
		return fmt.Errorf("read the state: %w: wait for index %d: %w", ErrNotLeader, index, err)
	}
	return nil
}

// View calls fn with this member's applied state, which may lag.
func (m *Member) View(fn func(*fsm.State) error) error {
	_, err := m.machine.view(fn)
	return err
}

// Fork is a copy of this member's applied state, for long work.
func (m *Member) Fork() *fsm.State { return m.machine.fork() }

// readBatcher lets reads that wait together share one question.
type readBatcher struct {
	fetchIndex func() (uint64, error)

	mu      sync.Mutex
	next    *readBatch
	running bool
}

type readBatch struct {
	done  chan struct{}
	index uint64
	err   error
}

// join waits for the next round to begin and end: the one under way began before
// this read did.
func (r *readBatcher) wait(ctx context.Context) (uint64, error) {
	r.mu.Lock()
	if r.next == nil {
		r.next = &readBatch{done: make(chan struct{})}
	}
	batch := r.next
	if !r.running {
		r.running = true
		go r.run()
	}
	r.mu.Unlock()
	select {
	case <-batch.done:
		return batch.index, batch.err
	case <-ctx.Done():
		return 0, fmt.Errorf("%w: %w", ErrNotLeader, context.Cause(ctx))
	}
}

func (r *readBatcher) run() {
	for {
		r.mu.Lock()
		batch := r.next
		r.next = nil
		r.running = batch != nil
		r.mu.Unlock()
		if batch == nil {
			return
		}
		batch.index, batch.err = r.fetchIndex()
		close(batch.done)
	}
}

// leaderReadIndex is the recipe S139. The order matters: the tick and the commit index
// are taken before a quorum is asked, anew in every round. The answer is the last
// command's index, since followers do not apply Raft's own entries.
func (m *Member) leaderReadIndex() (uint64, error) {
	v := m.tracker.current()
	ctx, cancel := context.WithTimeout(v.ctx, m.cfg.leaderlessTimeout())
	defer cancel()
	if !v.leading {
		return 0, fmt.Errorf("%w: this member does not lead", ErrNotLeader)
	}
	if err := m.readGate.wait(ctx, v.term); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	tick := m.transport.heartbeatClock.Load()
	commit := m.raft.CommitIndex()
	if err := m.confirmLeadership(ctx, v.term, tick); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if err := m.machine.applied.wait(ctx, commit); err != nil {
		return 0, fmt.Errorf("%w: apply what is committed: %w", ErrNotLeader, err)
	}
	return m.machine.index.Load(), nil
}

// confirmed has raft send heartbeats at once and waits for a quorum's answers to
// heartbeats that were sent after the tick.
func (m *Member) confirmLeadership(ctx context.Context, term, tick uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := m.verifyLeader(); err != nil {
			cancel(err)
		}
	}()
	if err := m.transport.waitForQuorum(ctx, raft.ServerID(m.id), term, tick, m.servers()); err != nil {
		return err
	}
	if m.raft.State() != raft.Leader || m.raft.CurrentTerm() != term {
		return errors.New("leadership was lost")
	}
	return nil
}

// followerReadIndex asks the leader.
func (m *Member) followerReadIndex() (uint64, error) {
	v := m.tracker.current()
	ctx, cancel := context.WithTimeout(v.ctx, m.cfg.leaderlessTimeout())
	defer cancel()
	if v.addr == "" || v.leading {
		return 0, fmt.Errorf("%w: no other leader is known", ErrNotLeader)
	}
	conn, err := m.peers.dial(v.id, v.addr)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	resp, err := raftpb.NewMemberClient(conn).ReadIndex(ctx, &raftpb.ReadIndexRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return 0, fmt.Errorf("%w: ask the leader at %s: %w", ErrNotLeader, v.addr, err)
	}
	return resp.GetIndex(), nil
}
