package raftnode

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// leaderInfo is the leader as this member knows it. It is immutable.
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

// leaderTracker follows raft's view of the leader.
type leaderTracker struct {
	raft   *raft.Raft
	calls  *raftCalls
	selfID string
	log    *slog.Logger
	info   atomic.Pointer[leaderInfo]
	mu     sync.Mutex
	// onElection is called when this member campaigns.
	onElection func()
}

func newLeaderTracker(r *raft.Raft, calls *raftCalls, selfID string, log *slog.Logger, onElection func()) *leaderTracker {
	l := &leaderTracker{raft: r, calls: calls, selfID: selfID, log: log, onElection: onElection}
	l.info.Store(leaderInfo{}.withContext())
	return l
}

func (l *leaderTracker) current() *leaderInfo { return l.info.Load() }

// refresh reads raft's view. This member counts as the leader only while raft is in that state.
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

// fallbackRefresh is the interval of refreshes without a notice from raft, a precaution: with raft
// v1.8.0 no case is known that needs it. Raft sends an observation right after each change of the
// leader or of its own state; when it stops leading it clears the leader without one, and then
// sends to notify. The term may change without either, but not while this member leads. An
// observation that is dropped because the channel is full is made up for by those in the
// channel: each is followed by a refresh, which is then later than the dropped change.
const fallbackRefresh = 250 * time.Millisecond

// run refreshes when it begins and on raft's notices. notify must be drained: raft blocks
// on it (S140).
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
	tick := time.NewTicker(fallbackRefresh)
	defer tick.Stop()
	for {
		l.refresh()
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
	}
}

// Leadership tells whether this member leads; changed is closed when the answer is out of date:
// another member leads, or the same one in another term.
func (m *Member) Leadership() (leading bool, term uint64, changed <-chan struct{}) {
	v := m.tracker.current()
	return v.leading, m.raft.CurrentTerm(), v.ctx.Done()
}
