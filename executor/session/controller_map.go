package session

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	// mapTimeout bounds a query for a block map when the caller set no deadline:
	// a host may have to compare large images.
	mapTimeout = time.Minute
	// maxMapExtents is the most extents of one answer, far below gRPC's limit of 4 MiB.
	maxMapExtents = 50_000
)

// Map queries a host for the extents that a snapshot allocates, or with a base those that differ between
// the two, from an offset in bytes on: at most max extents (0: as many as one answer carries). A
// host that needs long answers with what it has by then, and NextOffset. It works on every member,
// through whichever has the host's session. A *fsm.Rejection is the host's refusal.
func (m *Members) Map(ctx context.Context, node fsm.NodeID, base, target fsm.SnapshotID, from int64, max int) (executor.MapPage, error) {
	q := &sessionpb.MapQuestion{
		BaseSnapshotId: string(base), TargetSnapshotId: string(target), From: from, MaxExtents: clampExtents(max),
	}
	if ls := m.server.liveSession(node); ls != nil {
		answer, err := ls.askMap(ctx, q)
		return mapPageFromProto(node, answer, err)
	}
	answer, err := askHolder(ctx, m, node, mapTimeout, "for a block map", func(ctx context.Context, peer sessionpb.PeersClient) (*sessionpb.MapResponse, error) {
		return peer.Map(ctx, &sessionpb.MapRequest{NodeId: string(node), Question: q})
	})
	return mapPageFromProto(node, answer, err)
}

func clampExtents(max int) uint32 {
	if max <= 0 || max > maxMapExtents {
		return maxMapExtents
	}
	return uint32(max)
}

// mapPageFromProto converts a host's answer.
func mapPageFromProto(node fsm.NodeID, a *sessionpb.MapAnswer, err error) (executor.MapPage, error) {
	switch {
	case err != nil:
		return executor.MapPage{}, err
	case a.GetReason() != 0:
		return executor.MapPage{}, fsm.Reject(fsm.Reason(uint8OrZero(a.GetReason())), "%s", a.GetError())
	case a.GetError() != "":
		return executor.MapPage{}, status.Errorf(codes.Unavailable, "%s could not map its blocks: %s", node, a.GetError())
	}
	extents := convertAll(a.GetExtents(), func(x *sessionpb.MapExtent) executor.Extent {
		return executor.Extent{Offset: x.GetOffset(), Length: x.GetLength()}
	})
	return executor.MapPage{Extents: extents, More: a.GetMore(), NextOffset: a.GetReached()}, nil
}

// uint8OrZero reads a number of a newer build as zero, which is invalid, rather than as another one that fits.
func uint8OrZero(n uint32) uint8 {
	if n > math.MaxUint8 {
		return 0
	}
	return uint8(n)
}

// Map queries a host whose session is at this member.
func (p *peerService) Map(ctx context.Context, req *sessionpb.MapRequest) (*sessionpb.MapResponse, error) {
	if err := onlyControllers(ctx); err != nil {
		return nil, err
	}
	ls := p.server.liveSession(fsm.NodeID(req.GetNodeId()))
	if ls == nil {
		return &sessionpb.MapResponse{}, nil
	}
	answer, err := ls.askMap(ctx, req.GetQuestion())
	if err != nil {
		return nil, err
	}
	return &sessionpb.MapResponse{Held: true, Answer: answer}, nil
}

// askMap queries the host for one page of a block map.
func (ls *liveSession) askMap(ctx context.Context, query *sessionpb.MapQuestion) (*sessionpb.MapAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, mapTimeout)
	defer cancel()
	q, err := ls.ask(ctx, "which blocks "+query.GetTargetSnapshotId()+" has", func(id uint64) *sessionpb.ToNode {
		return &sessionpb.ToNode{Body: &sessionpb.ToNode_Map{Map: &sessionpb.MapQuestion{
			Question: id, BaseSnapshotId: query.GetBaseSnapshotId(), TargetSnapshotId: query.GetTargetSnapshotId(),
			From: query.GetFrom(), MaxExtents: query.GetMaxExtents(),
		}}}
	})
	if err != nil {
		return nil, err
	}
	return q.mapAnswer, nil
}
