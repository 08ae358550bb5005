package csiconv

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Snapshot is a snapshot that is taken, as CSI describes it. It is complete when it is
// reported, so it is ready to use from then on, as long as its file is there.
func Snapshot(snap *fsm.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: string(snap.ID), SourceVolumeId: string(snap.Source), SizeBytes: snap.Size,
		CreationTime: Timestamp(snap.TakenAt), ReadyToUse: !snap.Missing, GroupSnapshotId: string(snap.Group),
	}
}

// Timestamp is a time as CSI writes it.
func Timestamp(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }
