package volumegroup

import (
	"context"
	"slices"

	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/volumegroup"

	"github.com/holdfast-storage/holdfast/csi/rpcerr"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DeleteVolumeGroup returns once every reachable host reported the devices of all members gone; on an
// unreachable one the removal stays pending (S18). Near its deadline it is ABORTED: the group is gone then,
// so the retry is OK while hosts finish. What is unknown is deleted. Through the secondary of a replicated
// group it ends what that site asked for, and nothing is removed (S37).
func (s *Server) DeleteVolumeGroup(ctx context.Context, req *volumegroup.DeleteVolumeGroupRequest) (*volumegroup.DeleteVolumeGroupResponse, error) {
	err := s.checkServed(ctx, identity.Capability_VolumeGroup_VOLUME_GROUP)
	if err == nil {
		err = checkGroupID(req.GetVolumeGroupId())
	}
	if err != nil {
		return nil, rpcerr.From(err)
	}
	id := fsm.VolumeGroupID(req.GetVolumeGroupId())
	if !id.Valid() {
		return &volumegroup.DeleteVolumeGroupResponse{}, nil
	}
	if err := s.delete(ctx, id); err != nil {
		return nil, rpcerr.From(err)
	}
	return &volumegroup.DeleteVolumeGroupResponse{}, nil
}

// delete waits for the members that the group had when the call came, and for those that its entry deleted: one may
// have joined in between.
func (s *Server) delete(ctx context.Context, id fsm.VolumeGroupID) error {
	members, err := s.membersOf(ctx, id)
	if err != nil {
		return err
	}
	cmd := &fsmpb.DeleteVolumeGroup{VolumeGroupId: string(id), KeepVolumes: s.options.KeepVolumes}
	out, err := s.client.ProposeCommand(ctx, &fsmpb.Command{Body: &fsmpb.Command_DeleteVolumeGroup{DeleteVolumeGroup: cmd}})
	if err != nil {
		return err
	}
	if err := s.awaitClaimEnd(ctx, id, members); err != nil {
		return err
	}
	joined, err := s.removalsOf(out.GetIndex())
	if err != nil {
		return err
	}
	for _, member := range append(slices.Clone(members), joined...) {
		if err := s.awaitRemoval(ctx, member); err != nil {
			return err
		}
	}
	return nil
}

// membersOf are the group's volumes, none when it is not known. From then on this member knows every change of the
// group that was acknowledged before the call: fsm refuses a change that was decided without knowing the last one.
func (s *Server) membersOf(ctx context.Context, id fsm.VolumeGroupID) (members []fsm.VolumeID, err error) {
	err = s.client.ReadState(ctx, func(state *fsm.State) error {
		if g, ok := state.VolumeGroup(id); ok {
			members = g.Members
		}
		return nil
	})
	return members, err
}

// removalsOf are the volumes that the entry began to delete and that are not gone yet.
func (s *Server) removalsOf(index uint64) (ids []fsm.VolumeID, err error) {
	err = s.client.View(func(state *fsm.State) error {
		for v := range state.Operations() {
			if d, deleting := v.Phase.(fsm.Deleting); deleting && d.Since.Index == index {
				ids = append(ids, v.ID)
			}
		}
		return nil
	})
	return ids, err
}

// awaitRemoval waits for a member. One that is not being deleted had left the group before it was.
func (s *Server) awaitRemoval(ctx context.Context, id fsm.VolumeID) error {
	return s.client.AwaitVolume(ctx, id, "delete", func(state *fsm.State) (bool, *fsm.Rejection) {
		if v, ok := state.Volume(id); ok {
			if _, deleting := v.Phase.(fsm.Deleting); !deleting {
				return true, nil
			}
		}
		return state.VolumeRemoval(id)
	})
}
