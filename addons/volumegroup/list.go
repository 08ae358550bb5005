package volumegroup

import (
	"context"
	"iter"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"

	"github.com/holdfast-storage/holdfast/csi/page"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

var groupTokens = page.Tokens{Tag: "lg1", IDPrefix: "hg-"}

// ListVolumeGroups lists the groups of the endpoint's site, in order of their ids.
func (s *Server) ListVolumeGroups(ctx context.Context, req *volumegroup.ListVolumeGroupsRequest) (*volumegroup.ListVolumeGroupsResponse, error) {
	if err := s.checkServed(ctx, identity.Capability_VolumeGroup_LIST_VOLUME_GROUPS); err != nil {
		return nil, rpcerr.From(err)
	}
	if req.GetMaxEntries() < 0 {
		return nil, rpcerr.Invalid("max_entries is negative")
	}
	listed := &page.Page[groupWithMembers]{}
	var view *fsm.VolumeView
	err := s.client.ReadState(ctx, func(state *fsm.State) error {
		after, err := groupTokens.Decode(req.GetStartingToken(), state.Cluster().Incarnation)
		if err != nil {
			return err
		}
		listed.Collect(s.ownGroups(state, fsm.VolumeGroupID(after)), req.GetMaxEntries())
		view = viewOf(state, listed.Items)
		return nil
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return groupsResponse(listed, view), nil
}

func (s *Server) ownGroups(state *fsm.State, after fsm.VolumeGroupID) iter.Seq[groupWithMembers] {
	return func(yield func(groupWithMembers) bool) {
		for g := range state.VolumeGroups(after) {
			if s.isOwn(g) && !yield(withMembers(state, g)) {
				return
			}
		}
	}
}

// viewOf is the view of the members of all these groups.
func viewOf(state *fsm.State, groups []groupWithMembers) *fsm.VolumeView {
	var members []*fsm.Volume
	for _, g := range groups {
		members = append(members, g.volumes...)
	}
	return state.VolumeView(members...)
}

// groupsResponse describes the groups; where it ends before the last one it has a token.
func groupsResponse(listed *page.Page[groupWithMembers], view *fsm.VolumeView) *volumegroup.ListVolumeGroupsResponse {
	resp := &volumegroup.ListVolumeGroupsResponse{}
	resp.Entries = page.Describe(listed, func(g groupWithMembers) *volumegroup.ListVolumeGroupsResponse_Entry {
		return &volumegroup.ListVolumeGroupsResponse_Entry{VolumeGroup: g.proto(view)}
	})
	if listed.More {
		resp.NextToken = groupTokens.Encode(string(listed.Items[len(resp.Entries)-1].group.ID), view.Incarnation())
	}
	return resp
}
