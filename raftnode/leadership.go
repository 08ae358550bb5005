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
type view struct {
	id, addr string // empty: no leader is known
	leading  bool
	term     uint64
	since    time.Time       // when it became so
	over     context.Context // done when it no longer is so
	end      context.CancelCauseFunc
}

var errLeaderChanged = errors.New("another member leads now")

func (v view) begin() *view {
	v.since = time.Now()
	v.over, v.end = context.WithCancelCause(context.Background())
	return &v
}

// lost tells for how long no leader was known.
func (v *view) lost() time.Duration {
	if v.addr != "" {
		return 0
	}
	return time.Since(v.since)
}

// leadership follows raft's idea of the leader.
type leadership struct {
	raft    *raft.Raft
	self    string
	current atomic.Pointer[view]
	mu      sync.Mutex
	// elections counts the times that this member stood for election.
	elections func()
}

func newLeadership(r *raft.Raft, self string, elections func()) *leadership {
	l := &leadership{raft: r, self: self, elections: elections}
	l.current.Store(view{}.begin())
	return l
}

func (l *leadership) now() *view { return l.current.Load() }

// refresh reads raft's idea. A leader is known to itself only while raft calls it one.
func (l *leadership) refresh() *view {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.current.Load()
	addr, id := l.raft.LeaderWithID()
	v := view{id: string(id), addr: string(addr), term: l.raft.CurrentTerm()}
	v.leading = l.raft.State() == raft.Leader && v.id == l.self
	if v.id == l.self && !v.leading {
		v.id, v.addr = "", ""
	}
	if v.id == old.id && v.addr == old.addr && v.leading == old.leading && (v.term == old.term || !v.leading) {
		return old
	}
	fresh := v.begin()
	l.current.Store(fresh)
	old.end(errLeaderChanged)
	return fresh
}

// follow refreshes on raft's notices, and often enough to make up for those that
// raft does not give. notify must be drained: raft blocks on it (S140).
func (l *leadership) follow(ctx context.Context, notify <-chan bool) {
	notices := make(chan raft.Observation, 64)
	observer := raft.NewObserver(notices, false, func(o *raft.Observation) bool {
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
		case o := <-notices:
			if o.Data == raft.Candidate {
				l.elections()
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
	v := m.lead.now()
	return v.leading, m.raft.CurrentTerm(), v.over.Done()
}

// TransferLeadership gives leadership to another voter; no-op on others. It tries
// until ctx ends: raft gives up when the other one is not elected in one election timeout.
func (m *Member) TransferLeadership(ctx context.Context) error {
	for m.lead.refresh().leading {
		if len(m.voters()) < 2 {
			return errors.New("transfer leadership: there is no other voter")
		}
		err := await(ctx, m.raft.LeadershipTransfer().Error)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("transfer leadership: %w", err)
		}
		if err != nil && m.lead.refresh().leading {
			pause(ctx, 20*time.Millisecond)
		}
	}
	return nil
}

// resign transfers leadership, when this member has it, and waits a second at most:
// the main loop that would serve it may be blocked in the store (S27).
func (m *Member) resign(why string) {
	if !m.lead.refresh().leading {
		return
	}
	m.log.Warn("giving leadership away", "why", why)
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
		at, changed := g.term, g.changed
		g.mu.Unlock()
		if at >= term {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the leader has not yet applied what was committed before its term: %w", context.Cause(ctx))
		}
	}
}
