package session

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// answerReplica sends what the host observes of a replica now, or why it could not look.
func (h *hostSession) answerReplica(ctx context.Context, q *sessionpb.ReplicaQuestion) {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	select {
	case h.outgoing <- &sessionpb.FromNode{Body: &sessionpb.FromNode_Replica{Replica: h.replicaAnswer(ctx, q)}}:
	case <-ctx.Done():
	}
}

func (h *hostSession) replicaAnswer(ctx context.Context, q *sessionpb.ReplicaQuestion) *sessionpb.ReplicaAnswer {
	answer := &sessionpb.ReplicaAnswer{Question: q.GetQuestion()}
	seen, err := h.readReplica(ctx, fsm.VolumeID(q.GetVolume()))
	if err != nil {
		answer.Error, answer.Reason = err.Error(), rejectionReason(err)
		return answer
	}
	answer.Seen = seen.Proto()
	return answer
}

func (h *hostSession) readReplica(ctx context.Context, id fsm.VolumeID) (fsm.ReplicaObservation, error) {
	if h.ReplicaNow == nil {
		return fsm.ReplicaObservation{}, fsm.Reject(fsm.Unsupported, "this host does not answer about replicas")
	}
	return h.ReplicaNow(ctx, id)
}
