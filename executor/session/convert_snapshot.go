package session

import (
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// desiredSnapshotToProto and desiredSnapshotFromProto keep every field, as those of volumes do.
func desiredSnapshotToProto(w fsm.DesiredSnapshot) *sessionpb.SnapshotWish {
	return &sessionpb.SnapshotWish{
		SnapshotId:      string(w.Snapshot),
		SourceVolumeId:  string(w.Source),
		PoolId:          string(w.Pool),
		SizeBytes:       w.Size,
		Verb:            uint32(w.Goal),
		GroupSnapshotId: string(w.Group),
		Attempt:         w.Attempt,
		Sequence:        w.Sequence,
		Frozen:          w.Frozen,
		OperationId:     uint64(w.Operation),
		Retry:           w.Retry,
	}
}

func desiredSnapshotFromProto(p *sessionpb.SnapshotWish) fsm.DesiredSnapshot {
	return fsm.DesiredSnapshot{
		Snapshot: fsm.SnapshotID(p.GetSnapshotId()),
		Source:   fsm.VolumeID(p.GetSourceVolumeId()),
		Pool:     fsm.PoolID(p.GetPoolId()),
		Size:     p.GetSizeBytes(),
		Goal:     fsm.SnapshotGoal(uint8OrZero(p.GetVerb())),
		Group:    fsm.GroupSnapshotID(p.GetGroupSnapshotId()),
		Attempt:  p.GetAttempt(),
		Sequence: p.GetSequence(),
		Frozen:   p.GetFrozen(),

		Operation: fsm.OperationID(p.GetOperationId()),
		Retry:     p.GetRetry(),
	}
}
