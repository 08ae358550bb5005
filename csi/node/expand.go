package node

import (
	"context"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// NodeExpandVolume makes the filesystem on a staged volume as large as the device,
// which ControllerExpandVolume made larger. A raw volume has that size already.
func (s *Server) NodeExpandVolume(ctx context.Context, req *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if err := s.checkEnabled(csi.NodeServiceCapability_RPC_EXPAND_VOLUME); err != nil {
		return nil, err
	}
	expand, err := expandRequest(req)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	size, err := s.host.Expand(ctx, expand)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: size}, nil
}

func expandRequest(req *csi.NodeExpandVolumeRequest) (executor.ExpandRequest, error) {
	capacityRange := req.GetCapacityRange()
	expand := executor.ExpandRequest{
		Volume: fsm.VolumeID(req.GetVolumeId()), Path: req.GetVolumePath(),
		Size: capacityRange.GetRequiredBytes(), Limit: capacityRange.GetLimitBytes(),
	}
	if err := checkPaths(expand.Volume, expand.Path, req.GetStagingTargetPath()); err != nil {
		return expand, err
	}
	if capacityRange != nil && expand.Size == 0 && expand.Limit == 0 {
		return expand, fsm.Reject(fsm.Invalid, "capacity_range must have required_bytes, limit_bytes or both")
	}
	if expand.Limit != 0 && expand.Limit < expand.Size {
		return expand, fsm.Reject(fsm.Invalid, "the limit_bytes of capacity_range are below its required_bytes")
	}
	var err error
	if expand.Keys, err = passphrases(req.GetSecrets()); err != nil {
		return expand, err
	}
	if req.GetVolumeCapability() == nil {
		return expand, checkLocation(expand.Volume, expand.Path)
	}
	if expand.Capability, err = csiconv.ParseCapability(req.GetVolumeCapability()); err != nil {
		return expand, err
	}
	if err := csiconv.CheckAccessMode(expand.Capability.Mode, fsm.Invalid); err != nil {
		return expand, err
	}
	return expand, checkLocation(expand.Volume, expand.Path)
}

// checkPaths checks a call about a volume at a path. A relative volume_path is checked by
// checkLocation.
func checkPaths(id fsm.VolumeID, path, staging string) error {
	switch {
	case id == "":
		return fsm.Reject(fsm.Invalid, "volume_id is required")
	case path == "":
		return fsm.Reject(fsm.Invalid, "volume_path is required")
	case staging != "" && !filepath.IsAbs(staging):
		return checkAbsolute("staging_target_path", staging)
	}
	return nil
}

// checkLocation: an id of another form than ours is NotFound, and so is a relative path,
// where no volume is.
func checkLocation(id fsm.VolumeID, path string) error {
	switch {
	case !id.Valid():
		return fsm.UnknownVolume(id)
	case !filepath.IsAbs(path):
		return fsm.Reject(fsm.NotFound, "volume %s is not at that volume_path", id)
	}
	return nil
}
