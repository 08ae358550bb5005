package controller

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CreateVolume returns once the volume's host created the device. It says ABORTED just
// before the caller's deadline; the retry joins the same volume by name.
func (s *Server) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := s.enabled.checkEnabled(csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME); err != nil {
		return nil, err
	}
	if err := s.enabled.checkCreateEnabled(req); err != nil {
		return nil, rpcerr.From(err)
	}
	cmd, err := createCommand(s.client.Site(), req)
	if err == nil {
		err = s.enabled.checkMountFlags(cmd.GetCapabilities()[0].GetFsType(), req.GetVolumeCapabilities()...)
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	id, err := s.create(ctx, cmd)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	volume, err := s.progress.awaitReady(ctx, id)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.CreateVolumeResponse{Volume: volume}, nil
}

// create proposes the volume, and returns the id of the one that has the name from now on.
func (s *Server) create(ctx context.Context, cmd *fsmpb.CreateVolume) (fsm.VolumeID, error) {
	if knowsClaims, err := s.client.AtFeatureLevel(ctx, fsm.Level2); err != nil {
		return "", err
	} else if !knowsClaims {
		cmd.Claim = nil
	}
	if cmd.GetVolumeGroup() != "" {
		cmd.MaxVolumes = s.maxGroupVolumes
	}
	out, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: cmd}})
	if err != nil {
		return "", err
	}
	return fsm.VolumeID(out.GetVolumeId()), nil
}

// awaitReady waits until the volume's device is there.
func (p *progress) awaitReady(ctx context.Context, id fsm.VolumeID) (created *csi.Volume, err error) {
	err = p.await(ctx, id, "create", func(state *fsm.State) (bool, *fsm.Rejection) {
		v, rejection := state.VolumeCreation(id)
		if v != nil {
			created = csiconv.Volume(state.VolumeView(v), v)
		}
		return v != nil, rejection
	})
	return created, err
}
