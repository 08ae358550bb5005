package controller

import (
	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

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
