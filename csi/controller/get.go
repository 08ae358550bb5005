package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ControllerGetVolume is the current information of one volume.
func (s *Server) ControllerGetVolume(ctx context.Context, req *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_GET_VOLUME); err != nil {
		return nil, err
	}
	id := fsm.VolumeID(req.GetVolumeId())
	if id == "" {
		return nil, rpcerr.Invalid("volume_id is required")
	}
	resp := &csi.ControllerGetVolumeResponse{}
	err := s.state.readState(ctx, func(state *fsm.State) error {
		v, rejection := state.KnownVolume(id)
		if rejection != nil {
			return rejection
		}
		view := state.VolumeView(v)
		resp.Volume = csiconv.Volume(view, v)
		resp.Status = &csi.ControllerGetVolumeResponse_VolumeStatus{
			PublishedNodeIds: publishedNodes(v, state.Through(s.client.Site()).HiddenNodes()),
			VolumeCondition:  csiconv.Condition(view.Condition(v)),
		}
		return nil
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return resp, nil
}
