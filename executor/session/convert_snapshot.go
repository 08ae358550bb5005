package session

import (
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
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

// sourceToProto is nil for an empty volume.
func sourceToProto(s fsm.Source) *fsmpb.Source {
	if s.IsZero() {
		return nil
	}
	return &fsmpb.Source{SnapshotId: string(s.Snapshot), VolumeId: string(s.Volume)}
}

func sourceFromProto(p *fsmpb.Source) fsm.Source {
	return fsm.Source{Snapshot: fsm.SnapshotID(p.GetSnapshotId()), Volume: fsm.VolumeID(p.GetVolumeId())}
}

// limitsToProto is nil where there are none.
func limitsToProto(l fsm.Limits) *fsmpb.Limits {
	if l == (fsm.Limits{}) {
		return nil
	}
	return &fsmpb.Limits{
		ReadIops: l.ReadIOPS, WriteIops: l.WriteIOPS, ReadBytesPerSecond: l.ReadBPS, WriteBytesPerSecond: l.WriteBPS,
	}
}

func limitsFromProto(p *fsmpb.Limits) fsm.Limits {
	return fsm.Limits{
		ReadIOPS: p.GetReadIops(), WriteIOPS: p.GetWriteIops(), ReadBPS: p.GetReadBytesPerSecond(), WriteBPS: p.GetWriteBytesPerSecond(),
	}
}
