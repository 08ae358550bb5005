package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// transfer transfers leadership to another voter; no-op on a follower. It tries until ctx ends:
// raft gives up when the other one is not elected in one election timeout.
func (l *leaderTracker) transfer(ctx context.Context) error {
	for l.refresh().leading {
		if len(votersOf(l.raft)) < 2 {
			return errors.New("transfer leadership: there is no other voter")
		}
		future := l.raft.LeadershipTransfer()
		err := await(ctx, func() error { return l.calls.do(future.Error) })
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("transfer leadership: %w", err)
		}
		if err != nil && l.refresh().leading {
			sleep(ctx, 20*time.Millisecond)
		}
	}
	return nil
}

// resign transfers leadership, when this member leads, and waits a second at most:
// the main loop that would serve it may be blocked in the store (S27).
func (l *leaderTracker) resign(reason string) {
	if !l.refresh().leading {
		return
	}
	l.log.Warn("transferring leadership", "why", reason)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := l.transfer(ctx); err != nil {
		l.log.Warn("leadership transfer failed", "error", err)
	}
}

// await waits for a raft future, which knows no context.
func await(ctx context.Context, wait func() error) error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// termGate opens once per term, when this leader has applied all that was
// committed before its term began.
type termGate struct {
	mu      sync.Mutex
	term    uint64
	changed chan struct{}
}

func newTermGate() *termGate { return &termGate{changed: make(chan struct{})} }

func (g *termGate) open(term uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if term > g.term {
		g.term = term
		close(g.changed)
		g.changed = make(chan struct{})
	}
}

func (g *termGate) wait(ctx context.Context, term uint64) error {
	for {
		g.mu.Lock()
		opened, changed := g.term, g.changed
		g.mu.Unlock()
		if opened >= term {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the leader has not yet applied what was committed before its term: %w", context.Cause(ctx))
		}
	}
}
