package session

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// answerVolume sends what the host observes of a volume, or why it could not look.
func (h *hostSession) answerVolume(ctx context.Context, q *sessionpb.VolumeQuestion) {
	ctx, cancel := context.WithTimeout(ctx, volumeTimeout)
	defer cancel()
	select {
	case h.outgoing <- &sessionpb.FromNode{Body: &sessionpb.FromNode_Volume{Volume: h.volumeAnswer(ctx, q)}}:
	case <-ctx.Done():
	}
}

func (h *hostSession) volumeAnswer(ctx context.Context, q *sessionpb.VolumeQuestion) *sessionpb.VolumeAnswer {
	answer := &sessionpb.VolumeAnswer{Question: q.GetQuestion()}
	facts, err := h.readVolume(ctx, fsm.VolumeID(q.GetVolume()))
	if err != nil {
		answer.Error, answer.Reason = err.Error(), rejectionReason(err)
		return answer
	}
	answer.AllocatedKnown, answer.Allocated = facts.AllocatedKnown, facts.Allocated
	answer.HeaderBackup, answer.HeaderBackupGeneration = facts.HeaderBackup, facts.HeaderBackupGeneration
	return answer
}

func (h *hostSession) readVolume(ctx context.Context, id fsm.VolumeID) (executor.VolumeFacts, error) {
	if h.VolumeFacts == nil {
		return executor.VolumeFacts{}, fsm.Reject(fsm.Unsupported, "this host does not answer about volumes")
	}
	return h.VolumeFacts(ctx, id)
}
