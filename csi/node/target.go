package node

import (
	"context"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// NodePublishVolume binds a staged volume to a target path. Whether a second call is a
// repetition, has other arguments or is one target too many is decided by fsm.
func (s *Server) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	target, err := publishTargetRequest(req)
	if err == nil {
		err = s.checkMountGroup(req.GetVolumeCapability())
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	if err := s.host.PublishTarget(ctx, target); err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func publishTargetRequest(req *csi.NodePublishVolumeRequest) (executor.PublishTargetRequest, error) {
	target := executor.PublishTargetRequest{
		Volume: fsm.VolumeID(req.GetVolumeId()), TargetPath: req.GetTargetPath(), StagingPath: req.GetStagingTargetPath(),
		Flags: mountFlags(req.GetVolumeCapability()), MountGroup: req.GetVolumeCapability().GetMount().GetVolumeMountGroup(),
	}
	if err := checkRequired(target.Volume, "target_path", target.TargetPath); err != nil {
		return target, err
	}
	var err error
	if target.Capability, err = csiconv.ParseCapability(req.GetVolumeCapability()); err != nil {
		return target, err
	}
	if target.Epoch, err = csiconv.ParseContexts(req.GetVolumeContext(), req.GetPublishContext()); err != nil {
		return target, err
	}
	if target.StagingPath == "" { // after the checks that are INVALID_ARGUMENT
		return target, fsm.Reject(fsm.Precondition, "staging_target_path is required: the volume is staged first")
	}
	if err := checkAbsolute("staging_target_path", target.StagingPath); err != nil {
		return target, err
	}
	target.ReadOnly = req.GetReadonly() || fsm.ReadOnlyMode(target.Capability.Mode)
	target.Fingerprint = targetFingerprint(req)
	return target, checkUsable(target.Volume, target.Capability)
}

// targetFingerprint is of the arguments that make a second call at the same path another
// one: not the secrets, nor what COs put into the volume context, as tokens rotate.
func targetFingerprint(req *csi.NodePublishVolumeRequest) string {
	c := req.GetVolumeCapability()
	return csiconv.Fingerprint(append([]string{
		req.GetStagingTargetPath(),
		strconv.FormatBool(req.GetReadonly()),
		c.GetAccessMode().GetMode().String(),
		strconv.FormatBool(c.GetBlock() != nil),
		c.GetMount().GetFsType(),
	}, mountFlags(c)...)...)
}

// NodeUnpublishVolume removes the target path. What is not there is unpublished.
func (s *Server) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	id := fsm.VolumeID(req.GetVolumeId())
	if err := checkRequired(id, "target_path", req.GetTargetPath()); err != nil {
		return nil, rpcerr.From(err)
	}
	if id.Valid() {
		if err := s.host.UnpublishTarget(ctx, id, req.GetTargetPath()); err != nil {
			return nil, rpcerr.From(err)
		}
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
