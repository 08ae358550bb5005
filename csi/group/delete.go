package group

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DeleteVolumeGroupSnapshot deletes the group with all its snapshots, and returns once
// their hosts removed them; on unreachable ones the removal stays pending (S18). What is
// unknown is deleted, whatever snapshots are named.
func (s *Server) DeleteVolumeGroupSnapshot(ctx context.Context, req *csi.DeleteVolumeGroupSnapshotRequest) (*csi.DeleteVolumeGroupSnapshotResponse, error) {
	if err := s.checkEnabled(); err != nil {
		return nil, err
	}
	id := fsm.GroupSnapshotID(req.GetGroupSnapshotId())
	if id == "" {
		return nil, rpcerr.Invalid("group_snapshot_id is required")
	}
	members, err := s.membersToDelete(ctx, id, req.GetSnapshotIds())
	if err == nil && len(members) > 0 {
		err = s.delete(ctx, id, members)
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	return &csi.DeleteVolumeGroupSnapshotResponse{}, nil
}

// membersToDelete are the group's snapshots, none when it is not known.
func (s *Server) membersToDelete(ctx context.Context, id fsm.GroupSnapshotID, given []string) (members []fsm.SnapshotID, err error) {
	err = s.client.ReadState(ctx, func(state *fsm.State) error {
		all, rejection := state.MembersToDelete(id, snapshotIDs(given))
		if rejection != nil {
			return rejection
		}
		members = all
		return nil
	})
	return members, err
}

func (s *Server) delete(ctx context.Context, id fsm.GroupSnapshotID, members []fsm.SnapshotID) error {
	cmd := &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: string(id)}
	_, err := s.client.ProposeCommand(ctx, &fsmpb.Command{Body: &fsmpb.Command_DeleteGroupSnapshot{DeleteGroupSnapshot: cmd}})
	if err != nil {
		return err
	}
	return s.await(ctx, id, "delete", func(state *fsm.State) (bool, *fsm.Rejection) { return state.GroupRemoval(id, members) })
}
