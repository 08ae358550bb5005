package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const modifyVolume = csi.ControllerServiceCapability_RPC_MODIFY_VOLUME

// ControllerModifyVolume replaces the limits that are named and leaves the others
// unchanged. Where the volume is staged it returns once they are in force there.
func (s *Server) ControllerModifyVolume(ctx context.Context, req *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if err := s.enabled.checkEnabled(modifyVolume); err != nil {
		return nil, err
	}
	cmd, err := modifyCommand(req)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	if err := s.modify(ctx, cmd); err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.ControllerModifyVolumeResponse{}, nil
}

// modifyCommand reads all parameters before anything is proposed: one that is not
// known leaves the volume as it is.
func modifyCommand(req *csi.ControllerModifyVolumeRequest) (*fsmpb.ModifyVolume, error) {
	id := fsm.VolumeID(req.GetVolumeId())
	switch {
	case id == "":
		return nil, fsm.Reject(fsm.Invalid, "volume_id is required")
	case len(req.GetMutableParameters()) == 0:
		return nil, fsm.Reject(fsm.Invalid, "mutable_parameters are required")
	case !id.Valid():
		return nil, fsm.UnknownVolume(id)
	}
	var requested limitParameters
	if err := requested.merge(req.GetMutableParameters()); err != nil {
		return nil, err
	}
	return &fsmpb.ModifyVolume{VolumeId: string(id), Limits: requested.values.Proto(), Set: requested.mask, Claim: csiconv.Claim(req.GetMutableParameters())}, nil
}

func (s *Server) modify(ctx context.Context, cmd *fsmpb.ModifyVolume) error {
	id := fsm.VolumeID(cmd.GetVolumeId())
	if knowsClaims, err := s.client.AtFeatureLevel(ctx, fsm.Level2); err != nil {
		return err
	} else if !knowsClaims {
		cmd.Claim = nil
	}
	if _, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_ModifyVolume{ModifyVolume: cmd}}); err != nil {
		return err
	}
	return s.progress.await(ctx, id, "modify", func(state *fsm.State) (bool, *fsm.Rejection) { return state.VolumeModification(id) })
}
