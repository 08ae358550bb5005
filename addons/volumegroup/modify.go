package volumegroup

import (
	"context"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"

	"github.com/holdfast-storage/holdfast/addons/params"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ModifyVolumeGroupMembership gives a group exactly these volumes in one entry, or changes nothing. Those
// that leave it stay volumes.
func (s *Server) ModifyVolumeGroupMembership(ctx context.Context, req *volumegroup.ModifyVolumeGroupMembershipRequest) (*volumegroup.ModifyVolumeGroupMembershipResponse, error) {
	if err := s.checkServed(ctx, identity.Capability_VolumeGroup_MODIFY_VOLUME_GROUP); err != nil {
		return nil, rpcerr.From(err)
	}
	if err := s.checkModify(req); err != nil {
		return nil, rpcerr.From(err)
	}
	id := fsm.VolumeGroupID(req.GetVolumeGroupId())
	members, err := s.membersOf(ctx, id)
	if err != nil {
		return nil, rpcerr.From(err)
	}
	cmd := &fsmpb.ModifyVolumeGroup{VolumeGroupId: req.GetVolumeGroupId(), VolumeIds: req.GetVolumeIds(), MaxVolumes: s.options.MaxVolumes}
	modified, err := s.propose(ctx, &fsmpb.Command{Body: &fsmpb.Command_ModifyVolumeGroup{ModifyVolumeGroup: cmd}})
	if err == nil && len(req.GetVolumeIds()) == 0 {
		err = s.awaitClaimEnd(ctx, id, members)
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &volumegroup.ModifyVolumeGroupMembershipResponse{VolumeGroup: modified}, nil
}

func (s *Server) checkModify(req *volumegroup.ModifyVolumeGroupMembershipRequest) error {
	if err := checkGroupID(req.GetVolumeGroupId()); err != nil {
		return err
	}
	if err := params.Check(s.client.Site(), req.GetParameters()); err != nil {
		return err
	}
	return checkVolumeIDs(req.GetVolumeIds())
}
