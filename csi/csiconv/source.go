package csiconv

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ParseSource reads a content source, nil when there is none. Whether it can be the
// source of this volume is decided by fsm.
func ParseSource(source *csi.VolumeContentSource) (*fsmpb.Source, error) {
	if source == nil {
		return nil, nil
	}
	switch from := source.GetType().(type) {
	case *csi.VolumeContentSource_Snapshot:
		if from.Snapshot.GetSnapshotId() == "" {
			return nil, fsm.Reject(fsm.Invalid, "the snapshot_id of volume_content_source is required")
		}
		return &fsmpb.Source{SnapshotId: from.Snapshot.GetSnapshotId()}, nil
	case *csi.VolumeContentSource_Volume:
		if from.Volume.GetVolumeId() == "" {
			return nil, fsm.Reject(fsm.Invalid, "the volume_id of volume_content_source is required")
		}
		return &fsmpb.Source{VolumeId: from.Volume.GetVolumeId()}, nil
	}
	return nil, fsm.Reject(fsm.Invalid, "volume_content_source must name a snapshot or a volume")
}

// ContentSource is what a volume was made from, as CSI describes it.
func ContentSource(from fsm.Source) *csi.VolumeContentSource {
	switch {
	case from.Snapshot != "":
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
			Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: string(from.Snapshot)},
		}}
	case from.Volume != "":
		return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
			Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: string(from.Volume)},
		}}
	}
	return nil
}
