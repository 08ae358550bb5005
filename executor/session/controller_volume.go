package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// volumeTimeout bounds a query about one volume when the caller set no deadline.
const volumeTimeout = 10 * time.Second

// VolumeFacts queries a host for what it observes of its replica of a volume. It works on every member, through
// whichever has the host's session. A *fsm.Rejection is the host's refusal.
func (m *Members) VolumeFacts(ctx context.Context, node fsm.NodeID, id fsm.VolumeID) (executor.VolumeFacts, error) {
	if ls := m.server.liveSession(node); ls != nil {
		answer, err := ls.askVolume(ctx, id)
		return volumeFactsFromProto(node, answer, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	members, err := m.server.member.Peers(ctx)
	if err != nil {
		return executor.VolumeFacts{}, fmt.Errorf("ask the members for the session of %s: %w", node, err)
	}
	replies := make(chan volumeReply, len(members))
	for _, peer := range members {
		go func() { replies <- askPeerForVolume(ctx, peer, node, id) }()
	}
	failures := status.Errorf(codes.Unavailable, "ask %s about volume %s: %v", node, id, ErrNoSession)
	for range members {
		switch r := <-replies; {
		case r.err == nil:
			return volumeFactsFromProto(node, r.answer, nil)
		case !errors.Is(r.err, errNoSessionHere):
			failures = r.err
		}
	}
	return executor.VolumeFacts{}, failures
}

func volumeFactsFromProto(node fsm.NodeID, a *sessionpb.VolumeAnswer, err error) (executor.VolumeFacts, error) {
	switch {
	case err != nil:
		return executor.VolumeFacts{}, err
	case a.GetReason() != 0:
		return executor.VolumeFacts{}, fsm.Reject(fsm.Reason(uint8OrZero(a.GetReason())), "%s", a.GetError())
	case a.GetError() != "":
		return executor.VolumeFacts{}, status.Errorf(codes.Unavailable, "%s could not look at the volume: %s", node, a.GetError())
	}
	return executor.VolumeFacts{AllocatedKnown: a.GetAllocatedKnown(), Allocated: a.GetAllocated(), HeaderBackup: a.GetHeaderBackup()}, nil
}

type volumeReply struct {
	answer *sessionpb.VolumeAnswer
	err    error
}

func askPeerForVolume(ctx context.Context, peer Peer, node fsm.NodeID, id fsm.VolumeID) volumeReply {
	ctx, cancel := context.WithTimeout(ctx, volumeTimeout)
	defer cancel()
	if peer.Conn == nil {
		return volumeReply{err: status.Errorf(codes.Unavailable, "member %s cannot be reached", peer.ID)}
	}
	resp, err := sessionpb.NewPeersClient(peer.Conn).Volume(ctx, &sessionpb.VolumeRequest{NodeId: string(node), Question: &sessionpb.VolumeQuestion{Volume: string(id)}})
	switch {
	case err != nil:
		return volumeReply{err: fmt.Errorf("member %s: %w", peer.ID, err)}
	case !resp.GetHeld():
		return volumeReply{err: errNoSessionHere}
	}
	return volumeReply{answer: resp.GetAnswer()}
}

// Volume queries a host whose session is at this member.
func (p *peerService) Volume(ctx context.Context, req *sessionpb.VolumeRequest) (*sessionpb.VolumeResponse, error) {
	if err := onlyControllers(ctx); err != nil {
		return nil, err
	}
	ls := p.server.liveSession(fsm.NodeID(req.GetNodeId()))
	if ls == nil {
		return &sessionpb.VolumeResponse{}, nil
	}
	answer, err := ls.askVolume(ctx, fsm.VolumeID(req.GetQuestion().GetVolume()))
	if err != nil {
		return nil, err
	}
	return &sessionpb.VolumeResponse{Held: true, Answer: answer}, nil
}

// askVolume queries the host for its facts of one volume.
func (ls *liveSession) askVolume(ctx context.Context, id fsm.VolumeID) (*sessionpb.VolumeAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, volumeTimeout)
	defer cancel()
	q, err := ls.ask(ctx, "what it has of volume "+string(id), func(question uint64) *sessionpb.ToNode {
		return &sessionpb.ToNode{Body: &sessionpb.ToNode_Volume{Volume: &sessionpb.VolumeQuestion{Question: question, Volume: string(id)}}}
	})
	if err != nil {
		return nil, err
	}
	return q.volumeAnswer, nil
}

// setVolumeAnswer stores an answer. One to a query that has ended is too late, and is dropped.
func (ls *liveSession) setVolumeAnswer(a *sessionpb.VolumeAnswer) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q := ls.queries[a.GetQuestion()]; q != nil {
		delete(ls.queries, a.GetQuestion())
		q.volumeAnswer = a
		q.done <- nil
	}
}
