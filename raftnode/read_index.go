package raftnode

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
	"google.golang.org/grpc"
)

// leaderReadIndex is the ReadIndex protocol (Raft dissertation, 6.4) on the leader (S139). For
// each batch it takes the term of its leadership, then the heartbeat clock, then the commit
// index, and only then has a quorum confirm the leadership. The result is the last command's
// index, since followers do not apply Raft's own entries.
func (r *reader) leaderReadIndex() (uint64, error) {
	v := r.tracker.current()
	ctx, cancel := context.WithTimeout(v.ctx, r.cfg.leaderlessTimeout())
	defer cancel()
	if !v.leading {
		return 0, fmt.Errorf("%w: this member does not lead", ErrNotLeader)
	}
	if err := r.readGate.wait(ctx, v.term); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	tick := r.transport.heartbeatClock.Load()
	commit := r.raft.CommitIndex()
	if err := r.confirmLeadership(ctx, v.term, tick); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if err := r.machine.applied.wait(ctx, commit); err != nil {
		return 0, fmt.Errorf("%w: apply what is committed: %w", ErrNotLeader, err)
	}
	return r.machine.index.Load(), nil
}

// confirmLeadership has raft send heartbeats at once and waits until a quorum acknowledged
// heartbeats that were sent after the tick.
func (r *reader) confirmLeadership(ctx context.Context, term, tick uint64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := r.verifyLeader(); err != nil {
			cancel(err)
		}
	}()
	if err := r.transport.waitForQuorum(ctx, raft.ServerID(r.id), term, tick, r.servers()); err != nil {
		return err
	}
	if r.raft.State() != raft.Leader || r.raft.CurrentTerm() != term {
		return errors.New("leadership was lost")
	}
	return nil
}

// followerReadIndex asks the leader for its read index.
func (r *reader) followerReadIndex() (uint64, error) {
	v := r.tracker.current()
	ctx, cancel := context.WithTimeout(v.ctx, r.cfg.leaderlessTimeout())
	defer cancel()
	if v.addr == "" || v.leading {
		return 0, fmt.Errorf("%w: no other leader is known", ErrNotLeader)
	}
	conn, err := r.peers.dial(v.id, v.addr)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	resp, err := raftpb.NewMemberClient(conn).ReadIndex(ctx, &raftpb.ReadIndexRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return 0, fmt.Errorf("%w: ask the leader at %s: %w", ErrNotLeader, v.addr, err)
	}
	return resp.GetIndex(), nil
}

// verifyLeader has raft ask a quorum whether this member leads.
func (r *reader) verifyLeader() error {
	return r.raftCalls.do(func() error { return r.raft.VerifyLeader().Error() })
}
