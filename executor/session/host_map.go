package session

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// answerMap sends the page of the block map, or why the host could not read it.
func (h *hostSession) answerMap(ctx context.Context, q *sessionpb.MapQuestion) {
	ctx, cancel := context.WithTimeout(ctx, mapTimeout)
	defer cancel()
	select {
	case h.outgoing <- &sessionpb.FromNode{Body: &sessionpb.FromNode_Map{Map: h.mapAnswer(ctx, q)}}:
	case <-ctx.Done():
	}
}

func (h *hostSession) mapAnswer(ctx context.Context, q *sessionpb.MapQuestion) *sessionpb.MapAnswer {
	answer := &sessionpb.MapAnswer{Question: q.GetQuestion()}
	page, err := h.readMap(ctx, q)
	if err != nil {
		answer.Error, answer.Reason = err.Error(), rejectionReason(err)
		return answer
	}
	answer.More, answer.Reached = page.More, page.NextOffset
	answer.Extents = convertAll(page.Extents, func(x executor.Extent) *sessionpb.MapExtent {
		return &sessionpb.MapExtent{Offset: x.Offset, Length: x.Length}
	})
	return answer
}

func (h *hostSession) readMap(ctx context.Context, q *sessionpb.MapQuestion) (executor.MapPage, error) {
	if h.Map == nil {
		return executor.MapPage{}, fsm.Reject(fsm.Unsupported, "this host has no block maps")
	}
	maxExtents := int(clampExtents(int(q.GetMaxExtents())))
	return h.Map(ctx, fsm.SnapshotID(q.GetBaseSnapshotId()), fsm.SnapshotID(q.GetTargetSnapshotId()), q.GetFrom(), maxExtents)
}

func rejectionReason(err error) uint32 {
	var rejection *fsm.Rejection
	if errors.As(err, &rejection) {
		return uint32(rejection.Reason)
	}
	return 0
}
