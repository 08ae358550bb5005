package sim

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/addons/reclaimspace"
	"github.com/holdfast-storage/holdfast/addons/replication"
	"github.com/holdfast-storage/holdfast/addons/volumegroup"
	"github.com/holdfast-storage/holdfast/csi/controller"
	"github.com/holdfast-storage/holdfast/csi/group"
	"github.com/holdfast-storage/holdfast/executor/policy"
	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// member is a controller: a Raft member that applies the ordered log, the sessions' server, the
// monitor, and the CSI services. It implements session.Member, policy.Member and cluster.Cluster.
type member struct {
	s      *Sim
	name   string
	life   context.Context
	cancel context.CancelFunc

	mu      sync.Mutex
	state   *fsm.State
	applied uint64
	changed chan struct{} // closed when applied or the leader changes
	watches []*watch

	sessions   *session.Server
	monitor    *policy.Monitor
	controller *controller.Server
	groups     *group.Server
	space      *reclaimspace.ControllerServer

	replication  *replication.Server
	volumeGroups *volumegroup.Server
}

var errNoQuorum = errors.New("there is no leader, or its answer was lost")

// startMember starts a controller's process from a dump of what is committed.
func (s *Sim) startMember(name string) *member {
	time.Sleep(tick * time.Duration(10+len(s.members))) // no two monitors poll at the same time
	m := &member{s: s, name: name, state: s.log.restored(s.log.state), applied: s.log.committedIndex(), changed: make(chan struct{})}
	s.counts["dumps restored"]++
	m.life, m.cancel = context.WithCancel(s.life)
	quiet := slog.New(slog.DiscardHandler)
	m.sessions = session.NewServer(m, quiet)
	members := session.NewMembers(m.sessions)
	m.monitor = policy.NewMonitor(policy.MonitorConfig{
		Member: m, Members: members, Name: name, ReplaceAfter: s.options.replaceAfter, KeptRetention: s.options.keptRetention, Logger: quiet,
	})
	csiMember := actingMember{m}
	m.controller = controller.New(csiMember).WithPoolFacts(m.monitor.Facts().PollFacts)
	m.groups = group.New(csiMember)
	m.space = reclaimspace.NewController(csiMember, members)
	m.replication = replication.New(csiMember, members, replication.Options{NodeTimeout: 10 * time.Second})
	m.volumeGroups = volumegroup.New(csiMember, volumegroup.Options{MaxVolumes: 8})
	server := s.net.listen(m.life, name)
	registerSessions(server, m.sessions)
	go func() { _ = m.monitor.Run(m.life) }()
	return m
}

// crash ends the process at once.
func (m *member) crash() {
	m.cancel()
	m.sessions.Close()
	if m.s.log.leader == m {
		m.s.log.leader = nil
	}
}

func (m *member) up() bool { return m.life.Err() == nil }

// applyUpTo applies what is committed, up to an index.
func (m *member) applyUpTo(index uint64) {
	for m.applied < index {
		e := m.s.log.entries[m.applied]
		m.mu.Lock()
		result := m.state.Apply(m.applied+1, proto.CloneOf(e.cmd))
		m.applied++
		hash := m.state.Hash()
		m.publish(result.Changes)
		m.mu.Unlock()
		if hash != e.hash {
			m.s.fail("hash: %s differs from the log at index %d", m.name, m.applied)
		}
	}
	m.signalChanged()
}

func (m *member) signalChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.changed)
	m.changed = make(chan struct{})
}

// Propose has a command appended, wherever the leader is.
func (m *member) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	cmd = proto.CloneOf(cmd)
	if len(cmd.GetRequestId()) == 0 {
		cmd.RequestId = m.s.requestID()
	}
	if cmd.GetProposedIndex() == 0 {
		m.mu.Lock()
		cmd.ProposedIndex = m.applied
		m.mu.Unlock()
	}
	p := &proposal{member: m, cmd: cmd, done: make(chan proposalReply, 1)}
	m.s.log.offer(p)
	select {
	case r := <-p.done:
		if r.err != nil {
			return nil, r.err
		}
		if err := m.WaitIndex(ctx, r.index); err != nil {
			return nil, fmt.Errorf("wait for index %d: %w", r.index, err)
		}
		return r.outcome, fsm.Err(r.outcome)
	case <-ctx.Done():
		p.gone = true
		return nil, fmt.Errorf("%w: %w", errNoQuorum, ctx.Err())
	case <-m.life.Done():
		p.gone = true
		return nil, errNoQuorum
	}
}

// requestID is 16 random bytes of the seed.
func (s *Sim) requestID() []byte {
	id := make([]byte, fsm.RequestIDLen)
	_, _ = rand.Read(id)
	return id
}

// View reads this member's state.
func (m *member) View(fn func(*fsm.State) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fn(m.state)
}

// Fork copies this member's state.
func (m *member) Fork() (*fsm.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fork(), nil
}

// WaitIndex waits until this member has applied the index.
func (m *member) WaitIndex(ctx context.Context, index uint64) error {
	return m.wait(ctx, func() bool { return m.applied >= index })
}

// wait waits until the condition, which is read under mu.
func (m *member) wait(ctx context.Context, enough func() bool) error {
	for {
		m.mu.Lock()
		done, changed := enough(), m.changed
		m.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errNoQuorum, ctx.Err())
		case <-m.life.Done():
			return errNoQuorum
		}
	}
}

// Read is linearizable: it waits for what was committed when it was called.
func (m *member) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	if err := m.wait(ctx, m.leaderReachable); err != nil {
		return 0, err
	}
	index := m.s.log.committedIndex()
	if err := m.WaitIndex(ctx, index); err != nil {
		return 0, err
	}
	return index, m.View(fn)
}

func (m *member) leaderReachable() bool {
	leader := m.s.log.leader
	return leader != nil && (leader == m || m.s.net.up(m.name, leader.name))
}

// Ready tells whether there is a leader, and this member is not far behind it.
func (m *member) Ready() error {
	if !m.up() || !m.leaderReachable() {
		return errNoQuorum
	}
	return nil
}

// Leading tells whether this member leads.
func (m *member) Leading() (term uint64, leading bool) {
	return m.s.log.term, m.s.log.leader == m
}

// Peers are the other members.
func (m *member) Peers(context.Context) ([]session.Peer, error) {
	var peers []session.Peer
	for _, other := range m.s.members {
		if other.name != m.name {
			peers = append(peers, session.Peer{ID: other.name, Voter: true, Conn: &netConn{net: m.s.net, from: m.name, to: other.name, role: "controller", life: m.life, direct: true}})
		}
	}
	return peers, nil
}

// actingMember is the member as the CSI services see it.
type actingMember struct{ *member }

// Actor is this controller.
func (a actingMember) Actor() string { return "controller/" + a.name }

// Propose has a command applied with this controller as its actor.
func (a actingMember) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	cmd.Actor = a.Actor()
	return a.member.Propose(ctx, cmd)
}
