package server

import (
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-storage/holdfast/fsm"
)

// CutSnapshot tells whether a caller may be told of the snapshot: it is cut, and
// so is its group.
func CutSnapshot(n *fsm.Snapshot) bool { return n.Phase == fsm.SnapshotReady }

// Snapshot is a snapshot that is cut, as CSI describes it. A cut is whole when it is
// reported, so it is ready to use from then on, as long as its file is there.
func Snapshot(n *fsm.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: string(n.ID), SourceVolumeId: string(n.Source), SizeBytes: n.Size,
		CreationTime: Time(n.TakenAt), ReadyToUse: !n.Missing, GroupSnapshotId: string(n.Group),
	}
}

// Time is a time as CSI writes it.
func Time(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t) }
