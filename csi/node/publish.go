package node

import (
	"context"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/fsm"
)

// NodePublishVolume binds a staged volume to a target path. Whether a second call
// is the same, other arguments or one target too many is for the state to say.
func (s *Server) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	publish, err := publishRequest(req)
	if err == nil {
		err = s.grouped(req.GetVolumeCapability())
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	if err := s.host.Publish(ctx, publish); err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func publishRequest(req *csi.NodePublishVolumeRequest) (PublishRequest, error) {
	publish := PublishRequest{
		Volume: fsm.VolumeID(req.GetVolumeId()), TargetPath: req.GetTargetPath(), StagingPath: req.GetStagingTargetPath(),
		Flags: flags(req.GetVolumeCapability()), Group: req.GetVolumeCapability().GetMount().GetVolumeMountGroup(),
	}
	if err := required(publish.Volume, "target_path", publish.TargetPath); err != nil {
		return publish, err
	}
	var err error
	if publish.Capability, err = server.ParseCapability(req.GetVolumeCapability()); err != nil {
		return publish, err
	}
	if publish.Epoch, err = contexts(req.GetVolumeContext(), req.GetPublishContext()); err != nil {
		return publish, err
	}
	if publish.StagingPath == "" { // after what is INVALID_ARGUMENT
		return publish, fsm.Reject(fsm.Precondition, "staging_target_path is required: the volume is staged first")
	}
	if err := absolute("staging_target_path", publish.StagingPath); err != nil {
		return publish, err
	}
	publish.ReadOnly = req.GetReadonly() || server.ReadOnlyMode(publish.Capability.Mode)
	publish.Fingerprint = fingerprint(req)
	return publish, usable(publish.Volume, publish.Capability)
}

// fingerprint is of the arguments that make a second call at the same path another
// one: not the secrets, nor what COs put into the volume context, as tokens rotate.
func fingerprint(req *csi.NodePublishVolumeRequest) string {
	c := req.GetVolumeCapability()
	return server.Fingerprint(append([]string{
		req.GetStagingTargetPath(),
		strconv.FormatBool(req.GetReadonly()),
		c.GetAccessMode().GetMode().String(),
		strconv.FormatBool(c.GetBlock() != nil),
		c.GetMount().GetFsType(),
	}, flags(c)...)...)
}

// NodeUnpublishVolume removes the target path. What is not there is unpublished.
func (s *Server) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	id := fsm.VolumeID(req.GetVolumeId())
	if err := required(id, "target_path", req.GetTargetPath()); err != nil {
		return nil, rpcerr.From(err)
	}
	if id.Valid() {
		if err := s.host.Unpublish(ctx, id, req.GetTargetPath()); err != nil {
			return nil, rpcerr.From(err)
		}
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}
