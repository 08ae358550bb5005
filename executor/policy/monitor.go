package policy

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Poller polls all members for their sessions; *session.Members implements it.
type Poller interface {
	Poll(ctx context.Context, withTelemetry bool) (*session.PollReplies, error)
}

// Member is the Raft member that a monitor runs beside.
type Member interface {
	// Propose returns when a command is applied by the leader, wherever it is, and by this member.
	// A rejection is an error of type *fsm.Rejection; after any other error the caller
	// may retry.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	// View calls fn with this member's applied state, which may lag.
	View(fn func(*fsm.State) error) error
	// Fork returns a copy of this member's applied state, for long work without a lock.
	Fork() (*fsm.State, error)
	// Leading tells whether this member leads, and in which term.
	Leading() (term uint64, leading bool)
}

// MonitorConfig is what a monitor needs. Zero durations mean the documented defaults.
type MonitorConfig struct {
	Member  Member
	Members Poller
	Name    string // this controller's
	// NodeTimeout is how long no member may have a host's session before the host
	// is recorded as unreachable: 10 s.
	NodeTimeout time.Duration
	// Interval is between two polls, and bounds each: 1 s.
	Interval time.Duration
	// ReplaceAfter is how long a replicated volume may have too few replicas before it gets
	// another one; 0: it never gets one.
	ReplaceAfter time.Duration
	// KeptRetention is how long a kept copy stays after all replicas of its volume were up to
	// date; 0: permanently.
	KeptRetention time.Duration
	// ConvertTimeout is how long the conversion of a plain volume to a replicated one may take before it is
	// undone: 10 min.
	ConvertTimeout time.Duration
	// OnClockSkew is called on a leader whose clock is over MaxClockSkew from the members'
	// median (S27), at every poll while it is. Nil: only logged.
	OnClockSkew func(ctx context.Context, ahead time.Duration)
	Logger      *slog.Logger
}

// Monitor watches the sessions of all members (S25). It runs on every member, so that
// the next leader knows who had no session before; only the leader proposes.
type Monitor struct {
	MonitorConfig
	detector    failureDetector
	replacer    replicaReplacer
	leaderPolls int // polls as the leader
	facts       *FactTable
	clockAhead  atomic.Int64 // nanoseconds, at the last poll
	now         func() time.Time
}

// NewMonitor returns a monitor that Run starts.
func NewMonitor(cfg MonitorConfig) *Monitor {
	cfg.NodeTimeout = cmp.Or(cfg.NodeTimeout, 10*time.Second)
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	cfg.ConvertTimeout = cmp.Or(cfg.ConvertTimeout, 10*time.Minute)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Monitor{
		MonitorConfig: cfg, now: time.Now,
		detector: newFailureDetector(cfg.NodeTimeout, cfg.Interval),
		replacer: replicaReplacer{replaceAfter: cfg.ReplaceAfter, clock: pollClock{interval: pollsPerScan * cfg.Interval}},
		facts:    &FactTable{member: cfg.Member, poller: cfg.Members, timeout: cfg.Interval},
	}
}

// Facts is the monitor's table of pools.
func (m *Monitor) Facts() *FactTable { return m.facts }

// Run works until ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	tick := time.NewTicker(m.Interval)
	defer tick.Stop()
	for {
		m.poll(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// poll is acted upon by the member that led when it began: what another leader
// recorded since then is for the state to refuse.
func (m *Monitor) poll(ctx context.Context) {
	term, leading := m.Member.Leading()
	if !leading {
		m.facts.clear() // also when the poll fails: what was measured as leader is old
	}
	r, err := m.pollMembers(ctx, leading)
	if err != nil {
		m.Logger.Debug("cannot ask the members for their sessions", "error", err)
		return
	}
	m.clockAhead.Store(int64(clockSkew(r.ClockOffsets)))
	x := newPollResult(m.now(), r, term, leading)
	changes, err := m.applyPoll(r, x)
	if err != nil {
		m.Logger.Warn("cannot read the nodes", "error", err)
		return
	}
	if !leading {
		return
	}
	m.proposeReachability(ctx, changes)
	m.replaceReplicas(ctx, x)
	m.expireKeptCopies(ctx)
	m.cancelConversions(ctx)
	m.checkClockSkew(ctx)
}

func (m *Monitor) pollMembers(ctx context.Context, leading bool) (*session.PollReplies, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Interval)
	defer cancel()
	return m.Members.Poll(ctx, leading)
}

// applyPoll updates the table of facts, and returns which hosts' reachability changed.
func (m *Monitor) applyPoll(r *session.PollReplies, x pollResult) ([]reachabilityChange, error) {
	var nodes []fsm.Node
	var candidates []poolCandidate
	err := m.Member.View(func(state *fsm.State) error {
		for n := range state.Nodes() {
			nodes = append(nodes, *n)
		}
		if x.leading {
			candidates = poolCandidates(state, r.Sessions)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if x.leading {
		m.facts.replace(candidates)
	}
	return m.detector.decide(x, nodes), nil
}
