package session

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// MaxClockSkew is how far a leader's clock may be from the members' median (S27).
const MaxClockSkew = 5 * time.Second

// MonitorConfig is what a monitor needs. Zero durations mean the documented defaults.
type MonitorConfig struct {
	Server *Server // of this controller
	Name   string  // this controller's
	// NodeTimeout is how long no member may have a host's session before the host
	// is recorded as unreachable: 10 s.
	NodeTimeout time.Duration
	// Interval is between two exchanges: 1 s.
	Interval time.Duration
	// ReplaceAfter is how long a replicated volume may lack a replica before it gets
	// another one; 0: for ever.
	ReplaceAfter time.Duration
	// KeptRetention is how long a copy of what a replica had that lost is kept after all
	// replicas of its volume were up to date; 0: for ever.
	KeptRetention time.Duration
	// OnClockSkew is called on a leader whose clock is over MaxClockSkew from the members'
	// median (S27), at every exchange while it is. Nil: only logged.
	OnClockSkew func(ctx context.Context, ahead time.Duration)
	Logger      *slog.Logger
}

// Monitor is a member's view of all sessions (S25). It runs on every member, so that
// who becomes the leader knows who was silent before; only the leader records it.
type Monitor struct {
	MonitorConfig
	member         Member
	detector       failureDetector
	replacer       replicaReplacer
	leaderPolls    int // exchanges as the leader
	candidateTable atomic.Pointer[[]poolCandidate]
	now            func() time.Time
}

// NewMonitor makes a monitor beside a member.
func NewMonitor(cfg MonitorConfig) *Monitor {
	cfg.NodeTimeout = cmp.Or(cfg.NodeTimeout, 10*time.Second)
	cfg.Interval = cmp.Or(cfg.Interval, time.Second)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Monitor{
		MonitorConfig: cfg, member: cfg.Server.member, now: time.Now,
		detector: failureDetector{timeout: cfg.NodeTimeout, interval: cfg.Interval},
		replacer: replicaReplacer{replaceAfter: cfg.ReplaceAfter, pollClock: failureDetector{interval: pollsPerScan * cfg.Interval}},
	}
}

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

// round is one exchange. What it shows is acted upon by the member that led when it began:
// what another leader recorded since is for the state to refuse.
func (m *Monitor) poll(ctx context.Context) {
	term, leading := m.member.Leading()
	r, err := m.askMembers(ctx, leading)
	if err != nil {
		m.Logger.Debug("cannot ask the members for their sessions", "error", err)
		return
	}
	x := m.newPollResult(r, term, leading)
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
	m.checkClockSkew(ctx, r)
}

// pollReplies is what the members answered in one round.
type pollReplies struct {
	voters, answeredVoters int
	sessions               []*sessionpb.SessionFacts
	offsets                []time.Duration // the other members' clocks, less the own
}

// ask asks all members at once, this one too.
func (m *Monitor) askMembers(ctx context.Context, leading bool) (*pollReplies, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Interval)
	defer cancel()
	members, err := m.member.Peers(ctx)
	if err != nil {
		return nil, err
	}
	r := &pollReplies{voters: 1, answeredVoters: 1, sessions: m.Server.sessionFacts()}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, peer := range members {
		if peer.Voter {
			r.voters++
		}
		if peer.Conn != nil {
			group.Go(func() { m.askMember(ctx, peer, leading, r, &mu) })
		}
	}
	group.Wait()
	return r, nil
}

func (m *Monitor) askMember(ctx context.Context, peer Peer, leading bool, r *pollReplies, mu *sync.Mutex) {
	sentAt := m.now()
	answer, err := sessionpb.NewPeersClient(peer.Conn).Facts(ctx, &sessionpb.FactsRequest{SessionsOnly: !leading})
	if err != nil {
		m.Logger.Debug("a member does not say its sessions", "member", peer.ID, "error", err)
		return
	}
	midpoint := sentAt.Add(m.now().Sub(sentAt) / 2)
	mu.Lock()
	defer mu.Unlock()
	if peer.Voter {
		r.answeredVoters++
	}
	r.sessions = append(r.sessions, answer.GetSessions()...)
	r.offsets = append(r.offsets, time.Unix(0, answer.GetClockUnixNano()).Sub(midpoint))
}

// exchange is what the replies say of sessions.
func (m *Monitor) newPollResult(r *pollReplies, term uint64, leading bool) pollResult {
	x := pollResult{at: m.now(), term: term, leading: leading, voters: r.voters, answeredVoters: r.answeredVoters, sessions: map[hostKey]time.Duration{}}
	for _, s := range r.sessions {
		x.addSession(hostKey{fsm.NodeID(s.GetNodeId()), fsm.HostID(s.GetHostId())}, time.Duration(s.GetQuietNanos()))
	}
	return x
}

// take makes the replies the leader's fact table, and says which edges they show.
func (m *Monitor) applyPoll(r *pollReplies, x pollResult) ([]reachabilityChange, error) {
	var nodes []fsm.Node
	var table []poolCandidate
	err := m.member.View(func(state *fsm.State) error {
		for n := range state.Nodes() {
			nodes = append(nodes, *n)
		}
		if x.leading {
			table = poolCandidates(state, r.sessions)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if x.leading {
		m.candidateTable.Store(&table) // in one step: a placement without facts would not know of absent pools
	} else {
		m.candidateTable.Store(nil)
	}
	return m.detector.decide(x, nodes), nil
}

// propose records the edges. What fails is proposed again after the next exchange.
func (m *Monitor) proposeReachability(ctx context.Context, changes []reachabilityChange) {
	ctx, cancel := context.WithTimeout(ctx, 2*m.Interval)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(16)
	for _, c := range changes {
		group.Go(func() error {
			m.proposeReachabilityChange(ctx, c)
			return nil
		})
	}
	_ = group.Wait() // each says itself what failed
}

func (m *Monitor) proposeReachabilityChange(ctx context.Context, c reachabilityChange) {
	if !c.reachable && m.registeredSince(c) {
		return // the next exchange shows it
	}
	_, err := m.member.Propose(ctx, &fsmpb.Command{
		Actor: "controller/" + m.Name,
		Body: &fsmpb.Command_SetNodeReachable{SetNodeReachable: &fsmpb.SetNodeReachable{
			NodeId: string(c.node), HostId: string(c.host), Reachable: c.reachable,
		}},
	})
	log := m.Logger.With("node", c.node, "host", c.host, "reachable", c.reachable)
	var rejection *fsm.Rejection
	switch {
	case err == nil:
		log.Info("recorded whether a node can be reached")
	case errors.As(err, &rejection):
		log.Info("the log has another view of a node", "error", err)
	default:
		log.Warn("cannot record whether a node can be reached", "error", err)
	}
}

// registeredSince tells whether a host that was found to be away was heard since: its
// turn comes after those of others.
func (m *Monitor) registeredSince(c reachabilityChange) (is bool) {
	_ = m.member.View(func(state *fsm.State) error { // without a state nothing is proposed either
		n, ok := state.Node(c.node)
		is = ok && n.Registered != m.detector.outages[c.node].registered
		return nil
	})
	return is
}

// checkClockSkew compares this leader's clock with the members' (S27).
func (m *Monitor) checkClockSkew(ctx context.Context, r *pollReplies) {
	ahead := clockSkew(r.offsets)
	if ahead.Abs() <= MaxClockSkew {
		return
	}
	m.Logger.Warn("this leader's clock is far from the members' median", "ahead", ahead)
	if m.OnClockSkew != nil {
		m.OnClockSkew(ctx, ahead)
	}
}

// Attach gives a placement what was measured of at most 16 candidate pools (S25),
// and takes away what came with it. It never blocks; without a leader's exchange
// in this process there are no facts, and the state alone decides.
func (m *Monitor) AttachFacts(cmd *fsmpb.Command) {
	var all []poolCandidate
	if table := m.candidateTable.Load(); table != nil {
		all = *table
	}
	if create := cmd.GetCreateVolume(); create != nil {
		create.Facts = placementFacts(create.GetRequisite(), create.GetPreferred(), all)
	}
	if add := cmd.GetAddReplica(); add != nil {
		add.Facts = placementFacts(nodeTerm(add.GetNodeId()), nil, all)
	}
	if expand := cmd.GetExpandVolume(); expand != nil {
		expand.Facts = m.volumeFacts(fsm.VolumeID(expand.GetVolumeId()), all)
	}
	if keep := cmd.GetKeepReplica(); keep != nil {
		keep.Facts = m.volumeFacts(fsm.VolumeID(keep.GetVolumeId()), all)
	}
}

// volumeFacts are those of the pools that a volume is in; none at a level that has no word for them.
func (m *Monitor) volumeFacts(id fsm.VolumeID, all []poolCandidate) (facts []*fsmpb.PoolFact) {
	_ = m.member.View(func(state *fsm.State) error { // without a state nothing is known
		v, ok := state.Volume(id)
		if !ok || state.Cluster().FeatureLevel < fsm.Level2 {
			return nil
		}
		for i := range v.Replicas {
			at := slices.IndexFunc(all, func(c poolCandidate) bool { return c.fact.GetPoolId() == string(v.Replicas[i].Pool) })
			if at >= 0 {
				facts = append(facts, all[at].fact)
			}
		}
		return nil
	})
	return facts
}

// PollFacts is what was measured of all pools, by asking all members now; it works on
// every member. What cannot be asked is not known.
func (m *Monitor) PollFacts(ctx context.Context) []*fsmpb.PoolFact {
	r, err := m.askMembers(ctx, true)
	if err != nil {
		return nil
	}
	var facts []*fsmpb.PoolFact
	_ = m.member.View(func(state *fsm.State) error { // without a state there are no pools
		for _, c := range poolCandidates(state, r.sessions) {
			facts = append(facts, c.fact)
		}
		return nil
	})
	return facts
}

// PollPools is what was measured of each pool that the state knows, by asking all members
// now. A pool whose host cannot be asked is not in it.
func (m *Monitor) PollPools(ctx context.Context) map[fsm.PoolID]executor.PoolFacts {
	r, err := m.askMembers(ctx, true)
	if err != nil {
		return nil
	}
	pools := map[fsm.PoolID]executor.PoolFacts{}
	_ = m.member.View(func(state *fsm.State) error { // without a state there are no pools
		for _, s := range r.sessions {
			node, ok := state.Node(fsm.NodeID(s.GetNodeId()))
			if !ok || string(node.Host) != s.GetHostId() {
				continue // a host speaks for its own record only (S17, S20)
			}
			for _, p := range s.GetTelemetry().GetPools() {
				pools[fsm.PoolID(p.GetPoolId())] = poolFacts(p)
			}
		}
		return nil
	})
	return pools
}

func poolFacts(p *sessionpb.PoolTelemetry) executor.PoolFacts {
	return executor.PoolFacts{
		ID: fsm.PoolID(p.GetPoolId()), Free: p.GetFreeBytes(), Capacity: p.GetCapacityBytes(),
		Absent: p.GetAbsent(), FullCopies: p.GetCopies(), Detail: p.GetDetail(),
	}
}

// Facts is what was measured of all pools, on the leader; else nothing.
func (m *Monitor) CachedFacts() []*fsmpb.PoolFact {
	table := m.candidateTable.Load()
	if table == nil {
		return nil
	}
	facts := make([]*fsmpb.PoolFact, 0, len(*table))
	for _, c := range slices.Clone(*table) {
		facts = append(facts, c.fact)
	}
	return facts
}
