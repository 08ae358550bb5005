package admin

import (
	"context"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Fences returns every fence, of all owners.
func (s *Server) Fences(ctx context.Context, req *adminpb.FencesRequest) (*adminpb.FencesResponse, error) {
	st, err := s.fork(ctx, req.GetStale())
	if err != nil {
		return nil, err
	}
	return &adminpb.FencesResponse{Index: st.Cluster().Index, Fences: fenceViews(st)}, nil
}
