package admin

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// VolumeGroups returns one page. Its index is the page's own, as that of Volumes.
func (s *Server) VolumeGroups(ctx context.Context, req *adminpb.VolumeGroupsRequest) (*adminpb.VolumeGroupsResponse, error) {
	st, err := s.fork(ctx, req.GetStale())
	if err != nil {
		return nil, err
	}
	resp := &adminpb.VolumeGroupsResponse{Index: st.Cluster().Index}
	if req.GetGroup() == "" {
		fillVolumeGroups(st, req, resp)
		return resp, nil
	}
	g := findVolumeGroup(st, req.GetGroup())
	if g == nil {
		return nil, status.Errorf(codes.NotFound, "no volume group has the id or name %q", req.GetGroup())
	}
	resp.Groups = append(resp.Groups, volumeGroupView(st, g))
	return resp, nil
}

func fillVolumeGroups(st *fsm.State, req *adminpb.VolumeGroupsRequest, resp *adminpb.VolumeGroupsResponse) {
	size := pageSize(req.GetPageSize())
	for g := range st.VolumeGroups(fsm.VolumeGroupID(req.GetAfter())) {
		if len(resp.GetGroups()) == size {
			resp.Next = resp.GetGroups()[size-1].GetId()
			return
		}
		resp.Groups = append(resp.Groups, volumeGroupView(st, g))
	}
}

// findVolumeGroup finds a volume group by id, else by name; nil when there is none.
func findVolumeGroup(st *fsm.State, idOrName string) *fsm.VolumeGroup {
	if g, ok := st.VolumeGroup(fsm.VolumeGroupID(idOrName)); ok {
		return g
	}
	return st.VolumeGroupNamed(idOrName)
}
