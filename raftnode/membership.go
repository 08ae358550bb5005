package raftnode

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
)

const (
	// maxPromotionLag is how many entries a non-voter may lag to count as caught up.
	maxPromotionLag = 256
	// promotionProbes is how often in a row it must be, before it gets its vote.
	promotionProbes = 3
	// membershipChangeTimeout is how long a change of the membership may wait to be appended.
	membershipChangeTimeout = 5 * time.Second
)

// Peer is one member of the configuration.
type Peer struct {
	ID    string // Raft's
	Addr  string
	Voter bool
	Self  bool
}

// Peers lists the members of the latest configuration.
func (m *Member) Peers() []Peer {
	servers := m.servers()
	peers := make([]Peer, len(servers))
	for i, s := range servers {
		peers[i] = Peer{ID: string(s.ID), Addr: string(s.Address), Voter: s.Suffrage == raft.Voter, Self: string(s.ID) == m.id}
	}
	return peers
}

// Dial is a connection to a peer's Raft listener, by its id, shared and kept open. It
// reaches that member, or nobody.
func (m *Member) Dial(id string) (*grpc.ClientConn, error) {
	s, ok := m.serverOf(id)
	if !ok {
		return nil, fmt.Errorf("dial member %s: it is not in the configuration", id)
	}
	return m.peers.dial(id, string(s.Address))
}

// promoteCaughtUp gives a vote to one non-voter that has been close behind for a while (S141).
func (r *leaderDuties) promoteCaughtUp(ctx context.Context, answers map[raft.ServerID]memberStatus) {
	m := r.member
	for _, s := range m.servers() {
		if s.Suffrage == raft.Voter {
			continue
		}
		a, ok := answers[s.ID]
		if !ok || a.GetAppliedIndex()+maxPromotionLag < m.machine.index.Load() || a.GetMemberId() != string(s.ID) {
			r.caughtUpProbes[string(s.ID)] = 0
			continue
		}
		if r.caughtUpProbes[string(s.ID)]++; r.caughtUpProbes[string(s.ID)] >= promotionProbes {
			m.promoteToVoter(ctx, s)
			return
		}
	}
}

func (m *Member) promoteToVoter(ctx context.Context, s raft.Server) {
	m.membershipChange.Lock()
	defer m.membershipChange.Unlock()
	if current, ok := m.serverOf(string(s.ID)); !ok || current != s {
		return
	}
	m.log.Info("giving a member its vote", "id", string(s.ID))
	if err := await(ctx, m.raft.AddVoter(s.ID, s.Address, 0, membershipChangeTimeout).Error); err != nil && ctx.Err() == nil {
		m.log.Warn("give a member its vote", "id", string(s.ID), "error", err)
	}
}
