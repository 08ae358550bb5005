package admin

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Snapshots returns one page. Its index is the page's own, as that of Volumes.
func (s *Server) Snapshots(ctx context.Context, req *adminpb.SnapshotsRequest) (*adminpb.SnapshotsResponse, error) {
	st, err := s.fork(ctx, req.GetStale())
	if err != nil {
		return nil, err
	}
	resp := &adminpb.SnapshotsResponse{Index: st.Cluster().Index}
	if req.GetSnapshot() == "" {
		fillSnapshots(st, req, resp)
		return resp, nil
	}
	snap := findSnapshot(st, req.GetSnapshot())
	if snap == nil {
		return nil, status.Errorf(codes.NotFound, "no snapshot has the id or name %q", req.GetSnapshot())
	}
	resp.Snapshots = append(resp.Snapshots, snapshotView(snap))
	return resp, nil
}

func fillSnapshots(st *fsm.State, req *adminpb.SnapshotsRequest, resp *adminpb.SnapshotsResponse) {
	all, size := st.Snapshots(fsm.SnapshotID(req.GetAfter())), pageSize(req.GetPageSize())
	if source := req.GetSource(); source != "" {
		if v := findVolume(st, source); v != nil {
			source = string(v.ID)
		}
		all = st.SnapshotsOf(fsm.VolumeID(source), fsm.SnapshotID(req.GetAfter()))
	}
	for snap := range all {
		if (snap.KeptCopy != nil) != req.GetKept() || req.GetNode() != "" && (snap.Gone || string(snap.Node) != req.GetNode()) {
			continue
		}
		if len(resp.GetSnapshots()) == size {
			resp.Next = resp.GetSnapshots()[size-1].GetId()
			return
		}
		resp.Snapshots = append(resp.Snapshots, snapshotView(snap))
	}
}

func pageSize(requested uint32) int {
	if requested == 0 {
		return defaultPage
	}
	return int(min(requested, maxPage))
}

// findSnapshot finds a snapshot by id, else by name; nil when there is none.
func findSnapshot(st *fsm.State, idOrName string) *fsm.Snapshot {
	if snap, ok := st.Snapshot(fsm.SnapshotID(idOrName)); ok {
		return snap
	}
	return st.SnapshotNamed(idOrName)
}

// GroupSnapshots returns one page. Its index is the page's own.
func (s *Server) GroupSnapshots(ctx context.Context, req *adminpb.GroupSnapshotsRequest) (*adminpb.GroupSnapshotsResponse, error) {
	st, err := s.fork(ctx, req.GetStale())
	if err != nil {
		return nil, err
	}
	resp := &adminpb.GroupSnapshotsResponse{Index: st.Cluster().Index}
	if req.GetGroup() == "" {
		fillGroups(st, req, resp)
		return resp, nil
	}
	g := findGroup(st, req.GetGroup())
	if g == nil {
		return nil, status.Errorf(codes.NotFound, "no group snapshot has the id or name %q", req.GetGroup())
	}
	resp.Groups = append(resp.Groups, groupView(st, g))
	return resp, nil
}

func fillGroups(st *fsm.State, req *adminpb.GroupSnapshotsRequest, resp *adminpb.GroupSnapshotsResponse) {
	size := pageSize(req.GetPageSize())
	for g := range st.GroupSnapshots(fsm.GroupSnapshotID(req.GetAfter())) {
		if len(resp.GetGroups()) == size {
			resp.Next = resp.GetGroups()[size-1].GetId()
			return
		}
		resp.Groups = append(resp.Groups, groupView(st, g))
	}
}

// findGroup finds a group snapshot by id, else by name; nil when there is none.
func findGroup(st *fsm.State, idOrName string) *fsm.GroupSnapshot {
	if g, ok := st.GroupSnapshot(fsm.GroupSnapshotID(idOrName)); ok {
		return g
	}
	return st.GroupSnapshotNamed(idOrName)
}
