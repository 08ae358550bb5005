package session

import (
	"context"
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
	answer, err := askHolder(ctx, m, node, volumeTimeout, "about volume "+string(id), func(ctx context.Context, peer sessionpb.PeersClient) (*sessionpb.VolumeResponse, error) {
		return peer.Volume(ctx, &sessionpb.VolumeRequest{NodeId: string(node), Question: &sessionpb.VolumeQuestion{Volume: string(id)}})
	})
	return volumeFactsFromProto(node, answer, err)
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
	return executor.VolumeFacts{AllocatedKnown: a.GetAllocatedKnown(), Allocated: a.GetAllocated(), HeaderBackup: a.GetHeaderBackup(), HeaderBackupGeneration: a.GetHeaderBackupGeneration()}, nil
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
