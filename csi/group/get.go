package group

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
)

// GetVolumeGroupSnapshot is the current information of a group whose snapshots are taken.
// The group is looked up before the list of its snapshots is checked.
func (s *Server) GetVolumeGroupSnapshot(ctx context.Context, req *csi.GetVolumeGroupSnapshotRequest) (*csi.GetVolumeGroupSnapshotResponse, error) {
	if err := s.checkEnabled(); err != nil {
		return nil, err
	}
	id := fsm.GroupSnapshotID(req.GetGroupSnapshotId())
	if id == "" {
		return nil, rpcerr.Invalid("group_snapshot_id is required")
	}
	resp := &csi.GetVolumeGroupSnapshotResponse{}
	err := s.client.ReadState(ctx, func(state *fsm.State) error {
		g, rejection := state.KnownGroupSnapshot(id)
		if rejection == nil {
			rejection = g.CheckMembers(snapshotIDs(req.GetSnapshotIds()))
		}
		if rejection != nil {
			return rejection
		}
		resp.GroupSnapshot = groupProto(state, g)
		return nil
	})
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return resp, nil
}
