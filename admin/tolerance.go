package admin

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Tolerance says how many failures the cluster and one page of volumes tolerate now. The cluster's is of the first page only:
// a later page, and the answer about one volume, have the page alone.
func (s *Server) Tolerance(ctx context.Context, req *adminpb.ToleranceRequest) (*adminpb.ToleranceResponse, error) {
	st, err := s.fork(ctx, false)
	if err != nil {
		return nil, err
	}
	resp := &adminpb.ToleranceResponse{Index: st.Cluster().Index}
	if req.GetVolume() != "" {
		v := findVolume(st, req.GetVolume())
		if v == nil {
			return nil, status.Errorf(codes.NotFound, "no volume has the id or name %q", req.GetVolume())
		}
		resp.Volumes = append(resp.Volumes, volumeToleranceView(st, v))
		return resp, nil
	}
	if req.GetAfter() == "" {
		resp.Cluster = s.clusterTolerance(ctx, st)
	}
	size := pageSize(req.GetPageSize())
	for v := range st.Volumes(fsm.VolumeID(req.GetAfter())) {
		if _, ready := v.Phase.(fsm.Ready); !ready {
			continue
		}
		if len(resp.GetVolumes()) == size {
			resp.Next = resp.GetVolumes()[size-1].GetVolume()
			break
		}
		resp.Volumes = append(resp.Volumes, volumeToleranceView(st, v))
	}
	return resp, nil
}

// clusterTolerance is the state's, and that of the controllers.
func (s *Server) clusterTolerance(ctx context.Context, st *fsm.State) *adminpb.ClusterTolerance {
	c := st.ClusterTolerance()
	q := QuorumWithout(s.Cluster.Members(ctx, 0), func(*Member) bool { return false })
	return &adminpb.ClusterTolerance{
		Node: toleranceView(c.Node), Zone: toleranceView(c.Zone), Site: toleranceView(c.Site), Members: uint32(q.Tolerated()), //nolint:gosec // a count
		WithoutRedundancy: c.WithoutRedundancy, Local: c.Local, LimitedBy: string(c.LimitedBy),
	}
}

func volumeToleranceView(st *fsm.State, v *fsm.Volume) *adminpb.VolumeTolerance {
	return &adminpb.VolumeTolerance{Volume: string(v.ID), Name: v.Name, Replicated: v.Replicated(),
		Node: toleranceView(st.VolumeTolerance(v, fsm.DomainNode)), Zone: toleranceView(st.VolumeTolerance(v, fsm.DomainZone)), Site: toleranceView(st.VolumeTolerance(v, fsm.DomainSite)),
	}
}

func toleranceView(t fsm.Tolerance) *adminpb.Tolerance {
	return &adminpb.Tolerance{Loss: uint32(t.Loss), Use: uint32(t.Use)} //nolint:gosec // counts
}

// Tolerance reads all pages; the index of the answer is the last page's, and the cluster's tolerance that of the first.
func (c *Client) Tolerance(ctx context.Context, req *adminpb.ToleranceRequest) (*adminpb.ToleranceResponse, error) {
	var all *adminpb.ToleranceResponse
	page := proto.CloneOf(req)
	page.PageSize = maxPage
	err := c.readPages(ctx, func() { all = &adminpb.ToleranceResponse{} }, func(ctx context.Context, api adminpb.AdminClient, after string) (string, error) {
		page.After = after
		resp, err := api.Tolerance(ctx, page)
		if resp.GetCluster() != nil {
			all.Cluster = resp.GetCluster()
		}
		all.Index, all.Volumes = resp.GetIndex(), append(all.Volumes, resp.GetVolumes()...)
		return resp.GetNext(), err
	})
	return all, err
}
