package group

import (
	"context"
	"fmt"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/holdfast-storage/holdfast/csi/cluster"
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

// membersToDelete are the group's snapshots, none when it is not known. A delete that is
// under way is joined: its list of snapshots was checked.
func (s *Server) membersToDelete(ctx context.Context, id fsm.GroupSnapshotID, given []string) (members []fsm.SnapshotID, err error) {
	err = s.client.ReadState(ctx, func(state *fsm.State) error {
		g, ok := state.GroupSnapshot(id)
		if !ok {
			return nil
		}
		members = g.Members
		if g.Phase == fsm.GroupDeleting {
			return nil
		}
		return checkMembers(g, given)
	})
	return members, err
}

func (s *Server) delete(ctx context.Context, id fsm.GroupSnapshotID, members []fsm.SnapshotID) error {
	cmd := &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: string(id)}
	_, err := s.client.ProposeCommand(ctx, &fsmpb.Command{Body: &fsmpb.Command_DeleteGroupSnapshot{DeleteGroupSnapshot: cmd}})
	if err != nil {
		return err
	}
	return s.await(ctx, id, "delete", func(state *fsm.State) (bool, error) { return membersRemoved(state, id, members) })
}

// membersRemoved tells whether no reachable host has a member any more.
func membersRemoved(state *fsm.State, id fsm.GroupSnapshotID, members []fsm.SnapshotID) (bool, error) {
	for _, member := range members {
		if gone, err := cluster.SnapshotRemoved(state, member); err != nil {
			return false, err
		} else if !gone {
			return false, deletionFailure(state, id)
		}
	}
	return true, nil
}

// deletionFailure says why a deletion failed, nil when it did not: the removal of a
// member is part of its group's operation.
func deletionFailure(state *fsm.State, id fsm.GroupSnapshotID) error {
	g, ok := state.GroupSnapshot(id)
	if !ok || g.Operation == nil || g.Operation.State != fsm.OpFailed {
		return nil
	}
	return fmt.Errorf("delete group snapshot %s: %s; retry %s once this is mended", id, g.Operation.LastError, g.Operation.ID)
}
