package admin

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	defaultPage = 500
	maxPage     = 1000
)

// Volumes returns one page. Its index is the page's own: a later page may show a later state.
func (s *Server) Volumes(ctx context.Context, req *adminpb.VolumesRequest) (*adminpb.VolumesResponse, error) {
	st, err := s.fork(ctx, req.GetStale())
	if err != nil {
		return nil, err
	}
	resp := &adminpb.VolumesResponse{Index: st.Cluster().Index}
	if req.GetVolume() == "" {
		fillPage(st, req, resp)
		addGroupStatus(st, resp.GetVolumes())
		return resp, nil
	}
	v := findVolume(st, req.GetVolume())
	if v == nil {
		return nil, status.Errorf(codes.NotFound, "no volume has the id or name %q", req.GetVolume())
	}
	resp.Volumes = append(resp.Volumes, volumeView(st, v))
	addGroupStatus(st, resp.GetVolumes())
	return resp, nil
}

func fillPage(st *fsm.State, req *adminpb.VolumesRequest, resp *adminpb.VolumesResponse) {
	size := pageSize(req.GetPageSize())
	for v := range st.Volumes(fsm.VolumeID(req.GetAfter())) {
		if req.GetNode() != "" && !isOnNode(v, fsm.NodeID(req.GetNode())) {
			continue
		}
		if len(resp.GetVolumes()) == size {
			resp.Next = resp.GetVolumes()[size-1].GetId()
			return
		}
		resp.Volumes = append(resp.Volumes, volumeView(st, v))
	}
}

// findVolume finds a volume by id, else by name; nil when there is none.
func findVolume(st *fsm.State, idOrName string) *fsm.Volume {
	if v, ok := st.Volume(fsm.VolumeID(idOrName)); ok {
		return v
	}
	return st.VolumeNamed(idOrName)
}

// isOnNode tells whether a volume has a replica, a publication or a pending teardown on a node.
func isOnNode(v *fsm.Volume, node fsm.NodeID) bool {
	return slices.ContainsFunc(v.Replicas, func(r fsm.Replica) bool { return r.Node == node }) ||
		slices.ContainsFunc(publications(v), func(p fsm.Publication) bool { return p.Node == node }) ||
		slices.ContainsFunc(v.Teardowns, func(t fsm.Teardown) bool { return t.Node == node })
}

// Nodes returns every registered node, with how many volumes have a replica or are published there.
func (s *Server) Nodes(ctx context.Context, req *adminpb.NodesRequest) (*adminpb.NodesResponse, error) {
	st, err := s.fork(ctx, req.GetStale())
	if err != nil {
		return nil, err
	}
	nodes := nodeViews(st)
	if req.GetStopReasons() {
		for _, n := range nodes {
			n.StopReasons = st.ReplicatedStopReasons(fsm.NodeID(n.GetId()))
		}
	}
	var asking sync.WaitGroup
	asking.Go(func() { s.noteExpiry(ctx, nodes) })
	s.measure(ctx, nodes)
	asking.Wait()
	return &adminpb.NodesResponse{Index: st.Cluster().Index, Nodes: nodes}, nil
}

func nodeViews(st *fsm.State) []*adminpb.Node {
	replicas, published := map[fsm.NodeID]uint64{}, map[fsm.NodeID]uint64{}
	for v := range st.Volumes("") {
		for _, r := range v.Replicas {
			replicas[r.Node]++
		}
		for _, p := range publications(v) {
			published[p.Node]++
		}
	}
	var out []*adminpb.Node
	for n := range st.Nodes() {
		view := nodeView(st, n)
		view.Volumes, view.Publications = replicas[n.ID], published[n.ID]
		out = append(out, view)
	}
	return out
}

// State streams a complete state: a header, every node, every volume, every snapshot, every group
// snapshot and every volume group.
func (s *Server) State(req *adminpb.StateRequest, out adminpb.Admin_StateServer) error {
	st, err := s.fork(out.Context(), req.GetStale())
	if err != nil {
		return err
	}
	if err := out.Send(&adminpb.StateResponse{Body: &adminpb.StateResponse_Header{Header: stateHeader(st)}}); err != nil {
		return err
	}
	for _, n := range nodeViews(st) {
		if err := out.Send(&adminpb.StateResponse{Body: &adminpb.StateResponse_Node{Node: n}}); err != nil {
			return err
		}
	}
	for v := range st.Volumes("") {
		if err := out.Send(&adminpb.StateResponse{Body: &adminpb.StateResponse_Volume{Volume: volumeView(st, v)}}); err != nil {
			return err
		}
	}
	if err := sendSnapshots(st, out); err != nil {
		return err
	}
	for g := range st.VolumeGroups("") {
		if err := out.Send(&adminpb.StateResponse{Body: &adminpb.StateResponse_VolumeGroup{VolumeGroup: volumeGroupView(st, g)}}); err != nil {
			return err
		}
	}
	return nil
}

func sendSnapshots(st *fsm.State, out adminpb.Admin_StateServer) error {
	for snap := range st.Snapshots("") {
		if err := out.Send(&adminpb.StateResponse{Body: &adminpb.StateResponse_Snapshot{Snapshot: snapshotView(snap)}}); err != nil {
			return err
		}
	}
	for g := range st.GroupSnapshots("") {
		if err := out.Send(&adminpb.StateResponse{Body: &adminpb.StateResponse_Group{Group: groupView(st, g)}}); err != nil {
			return err
		}
	}
	return nil
}

func stateHeader(st *fsm.State) *adminpb.StateHeader {
	c, hash := st.Cluster(), st.Hash()
	return &adminpb.StateHeader{
		Index: c.Index, ClusterId: c.ID, Incarnation: c.Incarnation, IncarnationId: c.IncarnationID,
		FeatureLevel: c.FeatureLevel, Time: timeView(c.Time), Hash: hash[:],
		Checkpoint: &adminpb.Checkpoint{Index: c.Checkpoint.Index, Hash: c.Checkpoint.Hash},
	}
}
