package session

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// poolsTimeout bounds the poll that Pools makes.
const poolsTimeout = time.Second

// Members queries all members, this one included, about the hosts whose sessions
// they have. It works on every member, whether it leads or not.
type Members struct {
	server *Server
	now    func() time.Time
}

// NewMembers queries the members of the server's cluster.
func NewMembers(server *Server) *Members { return &Members{server: server, now: time.Now} }

// PollReplies is what the members answered to one poll.
type PollReplies struct {
	Voters         int // in the configuration
	AnsweredVoters int // of them, this member included
	// Sessions of all members that answered. A host may have two: an old connection
	// at one member, and a new one at another.
	Sessions []*sessionpb.SessionFacts
	// ClockOffsets are the other members' clocks minus this one's.
	ClockOffsets []time.Duration
}

// Poll asks all members at once which sessions they have. A member that has not answered
// when ctx ends counts as one that does not answer. Telemetry of pools makes the answers
// large: without it other members leave it out.
func (m *Members) Poll(ctx context.Context, withTelemetry bool) (*PollReplies, error) {
	peers, err := m.server.member.Peers(ctx)
	if err != nil {
		return nil, err
	}
	r := &PollReplies{Voters: 1, AnsweredVoters: 1, Sessions: m.server.sessionFacts()}
	var mu sync.Mutex
	var group sync.WaitGroup
	for _, peer := range peers {
		if peer.Voter {
			r.Voters++
		}
		if peer.Conn != nil {
			group.Go(func() { m.pollPeer(ctx, peer, withTelemetry, r, &mu) })
		}
	}
	group.Wait()
	return r, nil
}

func (m *Members) pollPeer(ctx context.Context, peer Peer, withTelemetry bool, r *PollReplies, mu *sync.Mutex) {
	sentAt := m.now()
	answer, err := sessionpb.NewPeersClient(peer.Conn).Facts(ctx, &sessionpb.FactsRequest{SessionsOnly: !withTelemetry})
	if err != nil {
		m.server.log.Debug("a member does not report its sessions", "member", peer.ID, "error", err)
		return
	}
	midpoint := sentAt.Add(m.now().Sub(sentAt) / 2)
	mu.Lock()
	defer mu.Unlock()
	if peer.Voter {
		r.AnsweredVoters++
	}
	r.Sessions = append(r.Sessions, answer.GetSessions()...)
	r.ClockOffsets = append(r.ClockOffsets, time.Unix(0, answer.GetClockUnixNano()).Sub(midpoint))
}

// Pools is the telemetry of each pool that the state knows, by polling all members now,
// for a second at most. A pool whose host has no session is not in it.
func (m *Members) Pools(ctx context.Context) map[fsm.PoolID]executor.PoolFacts {
	ctx, cancel := context.WithTimeout(ctx, poolsTimeout)
	defer cancel()
	r, err := m.Poll(ctx, true)
	if err != nil {
		return nil
	}
	pools := map[fsm.PoolID]executor.PoolFacts{}
	_ = m.server.member.View(func(state *fsm.State) error { // without a state there are no pools
		for _, s := range r.Sessions {
			node, ok := state.Node(fsm.NodeID(s.GetNodeId()))
			if !ok || string(node.Host) != s.GetHostId() {
				continue // a host reports about its own record only (S17, S20)
			}
			for _, p := range s.GetTelemetry().GetPools() {
				pools[fsm.PoolID(p.GetId())] = poolFacts.read(p)
			}
		}
		return nil
	})
	return pools
}
