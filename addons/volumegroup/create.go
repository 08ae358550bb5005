package volumegroup

import (
	"context"
	"fmt"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/addons/params"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CreateVolumeGroup makes a group of exactly these volumes in one entry, or joins the one of that name.
func (s *Server) CreateVolumeGroup(ctx context.Context, req *volumegroup.CreateVolumeGroupRequest) (*volumegroup.CreateVolumeGroupResponse, error) {
	if err := s.checkServed(ctx, identity.Capability_VolumeGroup_VOLUME_GROUP); err != nil {
		return nil, rpcerr.From(err)
	}
	cmd, err := s.createCommand(req)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	made, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_CreateVolumeGroup{CreateVolumeGroup: cmd}})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &volumegroup.CreateVolumeGroupResponse{VolumeGroup: made}, nil
}

// createCommand has no fingerprint: no parameter changes what a group is.
func (s *Server) createCommand(req *volumegroup.CreateVolumeGroupRequest) (*fsmpb.CreateVolumeGroup, error) {
	if req.GetName() == "" {
		return nil, fsm.Reject(fsm.Invalid, "name is required")
	}
	if err := params.Check(s.client.Site(), req.GetParameters()); err != nil {
		return nil, err
	}
	if err := checkVolumeIDs(req.GetVolumeIds()); err != nil {
		return nil, err
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("make an id for volume group %q: %w", req.GetName(), err)
	}
	return &fsmpb.CreateVolumeGroup{
		VolumeGroupId: string(fsm.VolumeGroupIDFrom(id)), Name: req.GetName(), VolumeIds: req.GetVolumeIds(), MaxVolumes: s.options.MaxVolumes,
	}, nil
}
