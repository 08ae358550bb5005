package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ControllerPublishVolume gives a node the right to use the volume. The publish
// context carries the epoch of that right, equal at every repetition (S3). For a
// replicated volume it returns once the node's replica is primary (S8).
func (s *Server) ControllerPublishVolume(ctx context.Context, req *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME); err != nil {
		return nil, err
	}
	cmd, err := publishCommand(req)
	if err == nil {
		err = s.enabled.checkPublishEnabled(req)
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	out, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_PublishVolume{PublishVolume: cmd}})
	epoch := fsm.EpochFrom(out.GetEpoch())
	if err == nil {
		err = s.progress.awaitPrimary(ctx, fsm.VolumeID(cmd.GetVolumeId()), fsm.NodeID(cmd.GetNodeId()), epoch)
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: csiconv.PublishContext(epoch)}, nil
}

func publishCommand(req *csi.ControllerPublishVolumeRequest) (*fsmpb.PublishVolume, error) {
	id := fsm.VolumeID(req.GetVolumeId())
	switch {
	case id == "":
		return nil, fsm.Reject(fsm.Invalid, "volume_id is required")
	case req.GetNodeId() == "":
		return nil, fsm.Reject(fsm.Invalid, "node_id is required")
	}
	c, err := csiconv.ParseCapability(req.GetVolumeCapability())
	if err != nil {
		return nil, err
	}
	if err := csiconv.CheckAccessMode(c.Mode, fsm.Invalid); err != nil {
		return nil, err
	}
	if err := csiconv.CheckVolumeContext(req.GetVolumeContext()); err != nil {
		return nil, err
	}
	if !id.Valid() {
		return nil, fsm.UnknownVolume(id)
	}
	return &fsmpb.PublishVolume{
		VolumeId: string(id), NodeId: req.GetNodeId(), Capability: c.TextProto(), ReadOnly: req.GetReadonly(),
	}, nil
}
