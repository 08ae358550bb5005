package volumegroup

import (
	"context"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// ControllerGetVolumeGroup is the current information of one group of the endpoint's site.
func (s *Server) ControllerGetVolumeGroup(ctx context.Context, req *volumegroup.ControllerGetVolumeGroupRequest) (*volumegroup.ControllerGetVolumeGroupResponse, error) {
	err := s.checkServed(ctx, identity.Capability_VolumeGroup_GET_VOLUME_GROUP)
	if err == nil {
		err = checkGroupID(req.GetVolumeGroupId())
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	resp := &volumegroup.ControllerGetVolumeGroupResponse{}
	err = s.client.ReadState(ctx, func(state *fsm.State) error {
		g, ok := state.VolumeGroup(fsm.VolumeGroupID(req.GetVolumeGroupId()))
		if !ok || !s.isOwn(g) {
			return fsm.Reject(fsm.NotFound, "volume group %q is not known here", csiconv.Message(req.GetVolumeGroupId()))
		}
		resp.VolumeGroup = describe(state, g)
		return nil
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return resp, nil
}

// isOwn tells whether the endpoint's site uses a group: those of others are not shown (S29).
func (s *Server) isOwn(g *fsm.VolumeGroup) bool { return g.UsedAt(fsm.SiteFrom(s.client.Site())) }
