package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ControllerGetVolume is the current information of one volume.
func (s *Server) ControllerGetVolume(ctx context.Context, req *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	if err := s.serves(csi.ControllerServiceCapability_RPC_GET_VOLUME); err != nil {
		return nil, err
	}
	id := fsm.VolumeID(req.GetVolumeId())
	if id == "" {
		return nil, rpcerr.Invalid("volume_id is required")
	}
	resp := &csi.ControllerGetVolumeResponse{}
	err := s.read(ctx, func(state *fsm.State) error {
		v, err := ready(state, id)
		if err != nil {
			return err
		}
		held := hostsOf(state, v)
		resp.Volume = held.volume(v)
		resp.Status = &csi.ControllerGetVolumeResponse_VolumeStatus{
			PublishedNodeIds: publishedNodes(v),
			VolumeCondition:  held.condition(v),
		}
		return nil
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return resp, nil
}

// findReady is a volume that callers know of.
func (s *Server) findReady(ctx context.Context, id fsm.VolumeID) (found *fsm.Volume, err error) {
	err = s.read(ctx, func(state *fsm.State) error {
		found, err = ready(state, id)
		return err
	})
	return found, err
}

// ready finds a volume that callers know of; one that is being made or deleted is
// not known to them.
func ready(state *fsm.State, id fsm.VolumeID) (*fsm.Volume, error) {
	v, ok := state.Volume(id)
	if !ok {
		return nil, unknownVolume(id)
	}
	if _, isReady := v.Phase.(fsm.Ready); !isReady {
		return nil, unknownVolume(id)
	}
	return v, nil
}
