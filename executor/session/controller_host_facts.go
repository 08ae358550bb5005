package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// hostFactsTimeout bounds a query for a host's facts: it runs commands and measures a disk.
const hostFactsTimeout = 20 * time.Second

// ErrOlderBuild: the build that was asked does not know the question.
var ErrOlderBuild = errors.New("it runs an older build, which does not look at itself")

// SetOwnFacts sets what answers other members about this member's own host. It is called before the server serves.
func (s *Server) SetOwnFacts(gather func(context.Context) ([]byte, error)) { s.ownFacts = gather }

// HostFacts queries a host for what it shows of itself, as JSON. It works on every member, through whichever has the
// host's session. reach is whom the host is to reach. The error is ErrOlderBuild where the host, or the member that has its session, does not know the question.
func (m *Members) HostFacts(ctx context.Context, node fsm.NodeID, reach Reachability) ([]byte, error) {
	if ls := m.server.liveSession(node); ls != nil {
		answer, err := ls.askHostFacts(ctx, reach.proto())
		return factsOf(string(node), answer, err)
	}
	answer, err := askHolder(ctx, m, node, hostFactsTimeout, "what it shows of itself", func(ctx context.Context, peer sessionpb.PeersClient) (*sessionpb.HostFactsResponse, error) {
		return peer.HostFacts(ctx, &sessionpb.HostFactsRequest{NodeId: string(node), Reach: reach.proto()})
	})
	return factsOf(string(node), answer, err)
}

// MemberFacts queries a member, by its Raft id, for what its host shows of itself; own is this member's. The error
// is ErrOlderBuild where its build does not know the question.
func (m *Members) MemberFacts(ctx context.Context, id string, own bool) ([]byte, error) {
	if own {
		return factsOf(id, factsAnswer(ctx, 0, m.server.ownFacts), nil)
	}
	peers, err := m.server.member.Peers(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask member %s about its host: %w", id, err)
	}
	for _, peer := range peers {
		if peer.ID == id {
			answer, err := askPeer(ctx, peer, hostFactsTimeout, func(ctx context.Context, client sessionpb.PeersClient) (*sessionpb.HostFactsResponse, error) {
				return client.HostFacts(ctx, &sessionpb.HostFactsRequest{})
			})
			return factsOf(id, answer, err)
		}
	}
	return nil, status.Errorf(codes.Unavailable, "member %s is not in the configuration", id)
}

func factsOf(whose string, a *sessionpb.HostFactsAnswer, err error) ([]byte, error) {
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil, ErrOlderBuild
	case err != nil:
		return nil, err
	case a.GetError() != "":
		return nil, status.Errorf(codes.Unavailable, "%s could not look at itself: %s", whose, a.GetError())
	}
	return a.GetFacts(), nil
}

// HostFacts answers about this member's own host, or queries a host whose session is at this member.
func (p *peerService) HostFacts(ctx context.Context, req *sessionpb.HostFactsRequest) (*sessionpb.HostFactsResponse, error) {
	if err := onlyControllers(ctx); err != nil {
		return nil, err
	}
	if req.GetNodeId() == "" {
		return &sessionpb.HostFactsResponse{Held: true, Answer: factsAnswer(ctx, 0, p.server.ownFacts)}, nil
	}
	ls := p.server.liveSession(fsm.NodeID(req.GetNodeId()))
	if ls == nil {
		return &sessionpb.HostFactsResponse{}, nil
	}
	answer, err := ls.askHostFacts(ctx, req.GetReach())
	if err != nil {
		return nil, err
	}
	return &sessionpb.HostFactsResponse{Held: true, Answer: answer}, nil
}

// askHostFacts queries the host. One whose build does not know the question would never answer, and is not asked.
func (ls *liveSession) askHostFacts(ctx context.Context, reach *sessionpb.Reachability) (*sessionpb.HostFactsAnswer, error) {
	if !ls.answersHostFacts {
		return nil, status.Error(codes.Unimplemented, ErrOlderBuild.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, hostFactsTimeout)
	defer cancel()
	q, err := ls.ask(ctx, "what it shows of itself", func(question uint64) *sessionpb.ToNode {
		return &sessionpb.ToNode{Body: &sessionpb.ToNode_HostFacts{HostFacts: &sessionpb.HostFactsQuestion{Question: question, Reach: reach}}}
	})
	if err != nil {
		return nil, err
	}
	return q.hostFactsAnswer, nil
}
