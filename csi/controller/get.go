package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

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
		v, err := readyVolume(state, id)
		if err != nil {
			return err
		}
		nodes := nodeViewOf(state, v)
		resp.Volume = nodes.volume(v)
		resp.Status = &csi.ControllerGetVolumeResponse_VolumeStatus{
			PublishedNodeIds: publishedNodes(v),
			VolumeCondition:  nodes.condition(v),
		}
		return nil
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return resp, nil
}

// readyVolume finds a volume that was returned to a caller; one that is being created or
// deleted is not found.
func readyVolume(state *fsm.State, id fsm.VolumeID) (*fsm.Volume, error) {
	v, ok := state.Volume(id)
	if !ok {
		return nil, unknownVolume(id)
	}
	if _, isReady := v.Phase.(fsm.Ready); !isReady {
		return nil, unknownVolume(id)
	}
	return v, nil
}
