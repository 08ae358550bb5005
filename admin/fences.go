package admin

import (
	"context"
	"fmt"
	"io"
	"strings"

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

func fencesTable(w io.Writer, a *adminpb.FencesResponse) {
	row(w, "CIDR", "OWNER", "SINCE", "HOLDS", "HOSTS", "WAITS FOR")
	for _, f := range a.GetFences() {
		row(w, f.GetCidr(), f.GetOwner(), f.GetSince(), f.GetHolds(), strings.Join(f.GetHosts(), " "), f.GetWaitsFor())
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}
