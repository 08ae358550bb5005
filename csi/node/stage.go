package node

import (
	"context"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// NodeStageVolume stages a volume on this host, under the epoch that the publish context
// carries (S3). A volume_mount_group belongs to the target paths: two of them may follow
// each other with different groups while the volume stays staged.
func (s *Server) NodeStageVolume(ctx context.Context, req *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	stage, err := stageRequest(req)
	if err == nil {
		err = s.checkMountGroup(req.GetVolumeCapability())
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	if err := s.host.Stage(ctx, stage); err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

func stageRequest(req *csi.NodeStageVolumeRequest) (executor.StageRequest, error) {
	stage := executor.StageRequest{Volume: fsm.VolumeID(req.GetVolumeId()), Path: req.GetStagingTargetPath(), Flags: mountFlags(req.GetVolumeCapability())}
	if err := checkRequired(stage.Volume, "staging_target_path", stage.Path); err != nil {
		return stage, err
	}
	if info, err := os.Stat(stage.Path); err == nil && !info.IsDir() {
		return stage, fsm.Reject(fsm.Invalid, "staging_target_path is not a directory")
	}
	var err error
	if stage.Capability, err = csiconv.ParseCapability(req.GetVolumeCapability()); err != nil {
		return stage, err
	}
	if stage.Keys, err = passphrases(req.GetSecrets()); err != nil {
		return stage, err
	}
	if stage.Epoch, err = csiconv.ParseContexts(req.GetVolumeContext(), req.GetPublishContext()); err != nil {
		return stage, err
	}
	return stage, checkUsable(stage.Volume, stage.Capability)
}

// NodeUnstageVolume unstages a volume. What is not staged is unstaged.
func (s *Server) NodeUnstageVolume(ctx context.Context, req *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	id := fsm.VolumeID(req.GetVolumeId())
	if err := checkRequired(id, "staging_target_path", req.GetStagingTargetPath()); err != nil {
		return nil, rpcerr.From(err)
	}
	if id.Valid() {
		if err := s.host.Unstage(ctx, id, req.GetStagingTargetPath()); err != nil {
			return nil, rpcerr.From(err)
		}
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// checkRequired checks the volume and the path, which must be absolute.
func checkRequired(id fsm.VolumeID, field, path string) error {
	switch {
	case id == "":
		return fsm.Reject(fsm.Invalid, "volume_id is required")
	case path == "":
		return fsm.Reject(fsm.Invalid, "%s is required", field)
	}
	return checkAbsolute(field, path)
}

func checkAbsolute(field, path string) error {
	if !filepath.IsAbs(path) {
		return fsm.Reject(fsm.Invalid, "%s must be an absolute path", field)
	}
	return nil
}

// checkUsable: an id of another form than ours is NotFound; a mode that no host serves
// exceeds what the volume can do.
func checkUsable(id fsm.VolumeID, c fsm.Capability) error {
	if !id.Valid() {
		return fsm.UnknownVolume(id)
	}
	return csiconv.CheckAccessMode(c.Mode, fsm.Precondition)
}

func mountFlags(c *csi.VolumeCapability) []string { return c.GetMount().GetMountFlags() }
