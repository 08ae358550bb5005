package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// view is who leads, as this member knows it. It is never changed.
type leaderInfo struct {
	id, addr string // empty: no leader is known
	leading  bool
	term     uint64
	since    time.Time       // when it became so
	ctx      context.Context // done when it no longer is so
	cancel   context.CancelCauseFunc
}

var errLeaderChanged = errors.New("another member leads now")

func (v leaderInfo) withContext() *leaderInfo {
	v.since = time.Now()
	v.ctx, v.cancel = context.WithCancelCause(context.Background())
	return &v
}

// leaderlessFor tells for how long no leader was known.
func (v *leaderInfo) leaderlessFor() time.Duration {
	if v.addr != "" {
		return 0
	}
	return time.Since(v.since)
}

// leaderTracker follows raft's idea of the leader.
type leaderTracker struct {
	raft   *raft.Raft
	selfID string
	info   atomic.Pointer[leaderInfo]
	mu     sync.Mutex
	// elections counts the times that this member stood for election.
	onElection func()
}

func newLeaderTracker(r *raft.Raft, selfID string, onElection func()) *leaderTracker {
	l := &leaderTracker{raft: r, selfID: selfID, onElection: onElection}
	l.info.Store(leaderInfo{}.withContext())
	return l
}

func (l *leaderTracker) current() *leaderInfo { return l.info.Load() }

// refresh reads raft's idea. A leader is known to itself only while raft calls it one.
func (l *leaderTracker) refresh() *leaderInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.info.Load()
	addr, id := l.raft.LeaderWithID()
	v := leaderInfo{id: string(id), addr: string(addr), term: l.raft.CurrentTerm()}
	v.leading = l.raft.State() == raft.Leader && v.id == l.selfID
	if v.id == l.selfID && !v.leading {
		v.id, v.addr = "", ""
	}
	if v.id == old.id && v.addr == old.addr && v.leading == old.leading && (v.term == old.term || !v.leading) {
		return old
	}
	next := v.withContext()
	l.info.Store(next)
	old.cancel(errLeaderChanged)
	return next
}

// run refreshes on raft's notices, and often enough to make up for those that
// raft does not give. notify must be drained: raft blocks on it (S140).
func (l *leaderTracker) run(ctx context.Context, notify <-chan bool) {
	observations := make(chan raft.Observation, 64)
	observer := raft.NewObserver(observations, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	l.raft.RegisterObserver(observer)
	defer l.raft.DeregisterObserver(observer)
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case o := <-observations:
			if o.Data == raft.Candidate {
				l.onElection()
			}
		case <-notify:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		l.refresh()
	}
}

// Leadership tells whether this member leads; changed is closed when the answer,
// the term or the leader is no longer the one told.
func (m *Member) Leadership() (leading bool, term uint64, changed <-chan struct{}) {
	v := m.tracker.current()
	return v.leading, m.raft.CurrentTerm(), v.ctx.Done()
}

// TransferLeadership gives leadership to another voter; no-op on others. It tries
// until ctx ends: raft gives up when the other one is not elected in one election timeout.
func (m *Member) TransferLeadership(ctx context.Context) error {
	for m.tracker.refresh().leading {
		if len(m.voters()) < 2 {
			return errors.New("transfer leadership: there is no other voter")
		}
		err := await(ctx, m.raft.LeadershipTransfer().Error)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("transfer leadership: %w", err)
		}
		if err != nil && m.tracker.refresh().leading {
			sleep(ctx, 20*time.Millisecond)
		}
	}
	return nil
}

// resign transfers leadership, when this member has it, and waits a second at most:
// the main loop that would serve it may be blocked in the store (S27).
func (m *Member) resign(reason string) {
	if !m.tracker.refresh().leading {
		return
	}
	m.log.Warn("giving leadership away", "why", reason)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := m.TransferLeadership(ctx); err != nil {
		m.log.Warn("leadership was not given away", "error", err)
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
