package session

import (
	"context"
	"errors"
	"fmt"
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	members, err := m.server.member.Peers(ctx)
	if err != nil {
		return executor.MapPage{}, fmt.Errorf("ask the members for the session of %s: %w", node, err)
	}
	replies := make(chan mapReply, len(members))
	for _, peer := range members {
		go func() { replies <- askPeerForMap(ctx, peer, node, q) }()
	}
	failures := status.Errorf(codes.Unavailable, "ask %s for a block map: %v", node, ErrNoSession)
	for range members {
		switch r := <-replies; {
		case r.err == nil:
			return mapPageFromProto(node, r.answer, nil)
		case !errors.Is(r.err, errNoSessionHere):
			failures = r.err
		}
	}
	return executor.MapPage{}, failures
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

type mapReply struct {
	answer *sessionpb.MapAnswer
	err    error
}

func askPeerForMap(ctx context.Context, peer Peer, node fsm.NodeID, q *sessionpb.MapQuestion) mapReply {
	ctx, cancel := context.WithTimeout(ctx, mapTimeout)
	defer cancel()
	if peer.Conn == nil {
		return mapReply{err: status.Errorf(codes.Unavailable, "member %s cannot be reached", peer.ID)}
	}
	resp, err := sessionpb.NewPeersClient(peer.Conn).Map(ctx, &sessionpb.MapRequest{NodeId: string(node), Question: q})
	switch {
	case err != nil:
		return mapReply{err: fmt.Errorf("member %s: %w", peer.ID, err)}
	case !resp.GetHeld():
		return mapReply{err: errNoSessionHere}
	}
	return mapReply{answer: resp.GetAnswer()}
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

// setMapAnswer stores an answer. One to a query that has ended is too late, and is dropped.
func (ls *liveSession) setMapAnswer(a *sessionpb.MapAnswer) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if q := ls.queries[a.GetQuestion()]; q != nil {
		delete(ls.queries, a.GetQuestion())
		q.mapAnswer = a
		q.done <- nil
	}
}
