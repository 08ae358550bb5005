package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ControllerExpandVolume returns once the volume's host made the device larger, in use or
// not. A filesystem on it is then expanded by NodeExpandVolume.
func (s *Server) ControllerExpandVolume(ctx context.Context, req *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_EXPAND_VOLUME); err != nil {
		return nil, err
	}
	cmd, err := expandCommand(req)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	v, err := s.expand(ctx, cmd)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: v.Size, NodeExpansionRequired: v.HasFilesystem(cmd.GetCapability())}, nil
}

func expandCommand(req *csi.ControllerExpandVolumeRequest) (*fsmpb.ExpandVolume, error) {
	id, capacityRange := fsm.VolumeID(req.GetVolumeId()), req.GetCapacityRange()
	switch {
	case id == "":
		return nil, fsm.Reject(fsm.Invalid, "volume_id is required")
	case capacityRange == nil:
		return nil, fsm.Reject(fsm.Invalid, "capacity_range is required")
	case capacityRange.GetRequiredBytes() == 0 && capacityRange.GetLimitBytes() == 0:
		return nil, fsm.Reject(fsm.Invalid, "capacity_range must have required_bytes, limit_bytes or both")
	}
	cmd := &fsmpb.ExpandVolume{VolumeId: string(id), RequiredBytes: capacityRange.GetRequiredBytes(), LimitBytes: capacityRange.GetLimitBytes()}
	if req.GetVolumeCapability() != nil {
		c, err := csiconv.ParseCapability(req.GetVolumeCapability())
		if err != nil {
			return nil, err
		}
		if err := csiconv.CheckAccessMode(c.Mode, fsm.Invalid); err != nil {
			return nil, err
		}
		cmd.Capability = c.TextProto()
	}
	if !id.Valid() {
		return nil, fsm.UnknownVolume(id)
	}
	return cmd, nil
}

// expand is the volume once its device has the size. A failed expansion leaves the old
// size everywhere; the retry begins another.
func (s *Server) expand(ctx context.Context, cmd *fsmpb.ExpandVolume) (expanded *fsm.Volume, err error) {
	id := fsm.VolumeID(cmd.GetVolumeId())
	if _, err = s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_ExpandVolume{ExpandVolume: cmd}}); err != nil {
		return nil, err
	}
	err = s.progress.await(ctx, id, "expand", func(state *fsm.State) (_ bool, rejection *fsm.Rejection) {
		expanded, rejection = state.VolumeExpansion(id, cmd.GetRequiredBytes())
		return expanded != nil, rejection
	})
	return expanded, err
}
