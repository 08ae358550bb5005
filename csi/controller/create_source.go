package controller

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// parseSource reads a content source, nil when there is none. Whether it can be
// the source of this volume is for the state to say.
func parseSource(source *csi.VolumeContentSource) (*fsmpb.Source, error) {
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

// checkSourceIDs is fsm.NotFound for an id of another form than ours: it is unknown.
func checkSourceIDs(source *fsmpb.Source) error {
	snapshot, volume := fsm.SnapshotID(source.GetSnapshotId()), fsm.VolumeID(source.GetVolumeId())
	switch {
	case snapshot != "" && !snapshot.Valid():
		return cluster.UnknownSnapshot(snapshot)
	case volume != "" && !volume.Valid():
		return cluster.UnknownVolume(volume)
	}
	return nil
}

// checkCreateEnabled refuses what belongs to a capability that is turned off.
func (s *Server) checkCreateEnabled(req *csi.CreateVolumeRequest) error {
	switch source := req.GetVolumeContentSource(); {
	case source.GetSnapshot() != nil && s.disabled[createDeleteSnapshot]:
		return fsm.Reject(fsm.Invalid, "volume_content_source: snapshots are turned off here")
	case source.GetVolume() != nil && s.disabled[csi.ControllerServiceCapability_RPC_CLONE_VOLUME]:
		return fsm.Reject(fsm.Invalid, "volume_content_source: clones are turned off here")
	}
	if err := s.checkModesEnabled(req.GetVolumeCapabilities()...); err != nil {
		return err
	}
	return s.checkMutableEnabled(req.GetMutableParameters())
}

// mutable refuses mutable parameters where they are turned off.
func (s *Server) checkMutableEnabled(given map[string]string) error {
	if len(given) > 0 && s.disabled[modifyVolume] {
		return fsm.Reject(fsm.Invalid, "mutable_parameters are turned off here")
	}
	return nil
}

// contentSource is what a volume was made from, as CSI describes it.
func contentSource(from fsm.Source) *csi.VolumeContentSource {
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
