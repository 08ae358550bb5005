package session

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// replicaTimeout bounds a query about one replica when the caller set no deadline.
const replicaTimeout = 10 * time.Second

// ReplicaNow queries a host for what its kernel says of its replica of a volume: what it observes after it was
// asked, under the generation that it knew before. It works on every member, through whichever has the host's
// session. A *fsm.Rejection is the host's refusal.
func (m *Members) ReplicaNow(ctx context.Context, node fsm.NodeID, id fsm.VolumeID) (fsm.ReplicaObservation, error) {
	if ls := m.server.liveSession(node); ls != nil {
		answer, err := ls.askReplica(ctx, id)
		return replicaNowFromProto(node, answer, err)
	}
	answer, err := askHolder(ctx, m, node, replicaTimeout, "about its replica of volume "+string(id), func(ctx context.Context, peer sessionpb.PeersClient) (*sessionpb.ReplicaResponse, error) {
		return peer.Replica(ctx, &sessionpb.ReplicaRequest{NodeId: string(node), Question: &sessionpb.ReplicaQuestion{Volume: string(id)}})
	})
	return replicaNowFromProto(node, answer, err)
}

func replicaNowFromProto(node fsm.NodeID, a *sessionpb.ReplicaAnswer, err error) (fsm.ReplicaObservation, error) {
	switch {
	case err != nil:
		return fsm.ReplicaObservation{}, err
	case a.GetReason() != 0:
		return fsm.ReplicaObservation{}, fsm.Reject(fsm.Reason(uint8OrZero(a.GetReason())), "%s", a.GetError())
	case a.GetError() != "" || a.GetSeen() == nil:
		return fsm.ReplicaObservation{}, status.Errorf(codes.Unavailable, "%s could not look at its replica: %s", node, a.GetError())
	}
	return fsm.ReplicaObservationFrom(a.GetSeen()), nil
}

// Replica queries a host whose session is at this member.
func (p *peerService) Replica(ctx context.Context, req *sessionpb.ReplicaRequest) (*sessionpb.ReplicaResponse, error) {
	if err := onlyControllers(ctx); err != nil {
		return nil, err
	}
	ls := p.server.liveSession(fsm.NodeID(req.GetNodeId()))
	if ls == nil {
		return &sessionpb.ReplicaResponse{}, nil
	}
	answer, err := ls.askReplica(ctx, fsm.VolumeID(req.GetQuestion().GetVolume()))
	if err != nil {
		return nil, err
	}
	return &sessionpb.ReplicaResponse{Held: true, Answer: answer}, nil
}

// askReplica queries the host for the state of one replica.
func (ls *liveSession) askReplica(ctx context.Context, id fsm.VolumeID) (*sessionpb.ReplicaAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	q, err := ls.ask(ctx, "how its replica of volume "+string(id)+" is", func(question uint64) *sessionpb.ToNode {
		return &sessionpb.ToNode{Body: &sessionpb.ToNode_Replica{Replica: &sessionpb.ReplicaQuestion{Question: question, Volume: string(id)}}}
	})
	if err != nil {
		return nil, err
	}
	return q.replicaAnswer, nil
}
