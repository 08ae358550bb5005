package controller

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/csi/server"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const modifyVolume = csi.ControllerServiceCapability_RPC_MODIFY_VOLUME

// ControllerModifyVolume replaces the limits that are named and leaves the others
// alone. Where the volume is staged it returns once they are in force there.
func (s *Server) ControllerModifyVolume(ctx context.Context, req *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if err := s.serves(modifyVolume); err != nil {
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
		return nil, unknownVolume(id)
	}
	var asked limits
	if err := asked.override(req.GetMutableParameters()); err != nil {
		return nil, err
	}
	return &fsmpb.ModifyVolume{VolumeId: string(id), Limits: asked.values.Proto(), Set: asked.set, Claim: server.Claim(req.GetMutableParameters())}, nil
}

func (s *Server) modify(ctx context.Context, cmd *fsmpb.ModifyVolume) error {
	id := fsm.VolumeID(cmd.GetVolumeId())
	done := func(state *fsm.State) (bool, error) {
		v, err := ready(state, id)
		if err != nil || asModified(v, cmd) && inForce(v) {
			return err == nil, err
		}
		return false, ended(v, fsm.OpModify, "modify volume "+string(id))
	}
	if !s.log.AtLevel(fsm.Level2) {
		cmd.Claim = nil
	}
	_, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_ModifyVolume{ModifyVolume: cmd}})
	if err == nil {
		cmd = &fsmpb.ModifyVolume{VolumeId: cmd.GetVolumeId()} // applied; a later call may have replaced it
	}
	return s.conclude(ctx, id, "modify", err, done)
}

// asModified tells whether the volume has the limits that the command sets.
func asModified(v *fsm.Volume, cmd *fsmpb.ModifyVolume) bool {
	asked, set := fsm.LimitsFrom(cmd.GetLimits()), cmd.GetSet()
	iops := v.Limits.ReadIOPS == asked.ReadIOPS && v.Limits.WriteIOPS == asked.WriteIOPS
	bandwidth := v.Limits.ReadBPS == asked.ReadBPS && v.Limits.WriteBPS == asked.WriteBPS
	return (set&iopsBits == 0 || iops) && (set&bandwidthBits == 0 || bandwidth)
}

// inForce tells whether every host that has the volume staged reported its limits.
func inForce(v *fsm.Volume) bool {
	return !slices.ContainsFunc(v.Publications(), func(p fsm.Publication) bool {
		r := v.Replica(p.Host)
		return p.Staging != nil && r != nil && r.Limits != v.Limits
	})
}
