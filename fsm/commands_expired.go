package fsm

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// AnswerExpired is the answer to a command that expired before it was applied (S4): whether
// an earlier attempt was applied is not known any more, so only the state can tell. Where what
// the command asks for holds already, the answer is the outcome that Apply would give, which
// would change nothing. Where the command could never have led to what exists, it is Apply's
// rejection, and so is one in the name of a site that its controller does not act for (S32).
// Otherwise nothing is known: Busy, and the caller's next call decides. It only reads.
func (s *State) AnswerExpired(cmd *fsmpb.Command) (*fsmpb.Outcome, *Rejection) {
	if rej := s.checkEndpoint(cmd); rej != nil {
		return nil, rej
	}
	out, rej := s.existingOutcome(cmd)
	if out == nil && rej == nil {
		rej = Reject(Busy, "%s: the command came too late and was not applied; retry", subjectOf(cmd))
	}
	return out, rej
}

// existingOutcome asks what the command's handler asks before it changes anything. Neither an
// outcome nor a rejection: the handler would go on, and change the state.
func (s *State) existingOutcome(cmd *fsmpb.Command) (*fsmpb.Outcome, *Rejection) {
	at := s.endpointOf(cmd)
	switch c := cmd.GetBody().(type) {
	case *fsmpb.Command_CreateVolume:
		return s.createdVolume(cmd.GetActor(), at, c.CreateVolume)
	case *fsmpb.Command_DeleteVolume:
		return s.deletedVolume(c.DeleteVolume), nil
	case *fsmpb.Command_PublishVolume:
		return s.publishedVolume(cmd.GetActor(), at, c.PublishVolume)
	case *fsmpb.Command_UnpublishVolume:
		return s.unpublishedVolume(cmd.GetActor(), at, c.UnpublishVolume), nil
	case *fsmpb.Command_ExpandVolume:
		return s.expandedVolume(at, c.ExpandVolume)
	case *fsmpb.Command_ModifyVolume:
		return s.modifiedVolume(at, c.ModifyVolume)
	case *fsmpb.Command_CreateSnapshot:
		return s.createdSnapshot(at, c.CreateSnapshot)
	case *fsmpb.Command_DeleteSnapshot:
		return s.deletedSnapshot(c.DeleteSnapshot), nil
	case *fsmpb.Command_CreateGroupSnapshot:
		return s.createdGroupSnapshot(at, c.CreateGroupSnapshot)
	case *fsmpb.Command_DeleteGroupSnapshot:
		return s.deletedGroupSnapshot(c.DeleteGroupSnapshot), nil
	case *fsmpb.Command_CreateVolumeGroup:
		return s.createdVolumeGroup(at, c.CreateVolumeGroup)
	case *fsmpb.Command_ModifyVolumeGroup:
		return s.modifiedVolumeGroup(at, c.ModifyVolumeGroup)
	case *fsmpb.Command_DeleteVolumeGroup:
		return s.deletedVolumeGroup(at, c.DeleteVolumeGroup)
	case *fsmpb.Command_FenceNetwork:
		return s.fencedNetwork(cmd.GetActor(), cmd.GetSite(), c.FenceNetwork)
	case *fsmpb.Command_UnfenceNetwork:
		return s.unfencedNetwork(FenceOwnerOf(cmd.GetActor(), cmd.GetSite()), c.UnfenceNetwork)
	}
	return nil, nil
}

// fencedNetwork is the outcome for CIDRs that are all fenced already.
func (s *State) fencedNetwork(actor, site string, c *fsmpb.FenceNetwork) (*fsmpb.Outcome, *Rejection) {
	f, rej := s.readFencing(actor, site, c)
	if rej != nil || len(f.added) > 0 {
		return nil, rej
	}
	return &fsmpb.Outcome{}, nil
}

// unfencedNetwork is the outcome for CIDRs of which the owner fences none.
func (s *State) unfencedNetwork(owner FenceOwner, c *fsmpb.UnfenceNetwork) (*fsmpb.Outcome, *Rejection) {
	cidrs, rej := fencedPrefixes(c.GetCidrs())
	if rej != nil {
		return nil, rej
	}
	for _, p := range cidrs {
		if _, fenced := s.Fence(p.String(), owner); fenced {
			return nil, nil
		}
	}
	return &fsmpb.Outcome{}, nil
}

// createdVolume is the outcome of joining the volume that has the name.
func (s *State) createdVolume(actor string, at endpoint, c *fsmpb.CreateVolume) (*fsmpb.Outcome, *Rejection) {
	requested, rej := s.readCreateVolume(at, c)
	if rej != nil {
		return nil, rej
	}
	existing, exists := s.VolumeByName(requested.Origin, requested.Name)
	if !exists || existing.isFailed() {
		return nil, nil
	}
	if rej := s.checkMaker(actor, existing); rej != nil {
		return nil, rej
	}
	return s.joinExisting(existing, &requested, c)
}

// publishedVolume is the outcome of joining the node's publication. One that is ending would
// be revived.
func (s *State) publishedVolume(actor string, at endpoint, c *fsmpb.PublishVolume) (*fsmpb.Outcome, *Rejection) {
	v, n, rej := s.volumeAndNode(at, c)
	if rej != nil {
		return nil, rej
	}
	existing := v.Publications()
	if len(existing) == 0 {
		return nil, nil
	}
	requested := requestedPublication(v, n, c)
	requested.MadeBy = s.maker(actor)
	outcome, rej := rejoinPublication(v, existing, requested)
	if rej == nil && v.Publication(n.ID).Ending {
		return nil, nil
	}
	return outcome, rej
}

// expandedVolume is the outcome for a volume that is as large as requested.
func (s *State) expandedVolume(at endpoint, c *fsmpb.ExpandVolume) (*fsmpb.Outcome, *Rejection) {
	v, size, rej := s.requestedExpansion(at, c)
	if rej != nil || size != v.Size {
		return nil, rej
	}
	return s.operationOutcomeOf(v, OpExpand), nil
}

// modifiedVolume is the outcome for a volume that has the limits and the claim.
func (s *State) modifiedVolume(at endpoint, c *fsmpb.ModifyVolume) (*fsmpb.Outcome, *Rejection) {
	v, rej := s.homeVolume(at, "modify volume", c.GetVolumeId())
	if rej != nil {
		return nil, rej
	}
	updated := *v
	rej = updated.updateClaim(c.GetClaim())
	if rej != nil || updated.Claim != v.Claim || !v.hasLimits(v.requestedLimits(c)) {
		return nil, rej
	}
	return s.operationOutcomeOf(v, OpModify), nil
}

// createdSnapshot is the outcome of joining the snapshot that has the name.
func (s *State) createdSnapshot(at endpoint, c *fsmpb.CreateSnapshot) (*fsmpb.Outcome, *Rejection) {
	requested, rej := requestedSnapshot(at, c)
	if rej != nil {
		return nil, rej
	}
	existing, exists := s.SnapshotByName(requested.Origin, requested.Name)
	if !exists || existing.Phase == SnapshotFailed {
		return nil, nil
	}
	return joinExistingSnapshot(existing, &requested)
}

// createdGroupSnapshot is the outcome of joining the group that has the name. One that is
// being aborted is no group any more.
func (s *State) createdGroupSnapshot(at endpoint, c *fsmpb.CreateGroupSnapshot) (*fsmpb.Outcome, *Rejection) {
	requested, members, rej := requestedGroup(at, c)
	if rej != nil {
		return nil, rej
	}
	existing, exists := s.GroupSnapshotByName(requested.Origin, requested.Name)
	if !exists || existing.Phase == GroupAborting {
		return nil, nil
	}
	return s.joinExistingGroup(existing, &requested, members)
}

// createdVolumeGroup is the outcome of joining the volume group that has the name.
func (s *State) createdVolumeGroup(at endpoint, c *fsmpb.CreateVolumeGroup) (*fsmpb.Outcome, *Rejection) {
	requested, rej := requestedVolumeGroup(at, c)
	if rej != nil {
		return nil, rej
	}
	existing, exists := s.VolumeGroupByName(requested.Origin, requested.Name)
	if !exists {
		return nil, nil
	}
	return existing.joinAt(requested.Origin, &requested)
}

// subjectOf names what the command does, and to what.
func subjectOf(cmd *fsmpb.Command) string {
	switch c := cmd.GetBody().(type) {
	case *fsmpb.Command_CreateVolume:
		return fmt.Sprintf("create volume %q", clip(c.CreateVolume.GetName()))
	case *fsmpb.Command_DeleteVolume:
		return "delete volume " + clip(c.DeleteVolume.GetVolumeId())
	case *fsmpb.Command_PublishVolume:
		return "publish volume " + clip(c.PublishVolume.GetVolumeId())
	case *fsmpb.Command_UnpublishVolume:
		return "unpublish volume " + clip(c.UnpublishVolume.GetVolumeId())
	case *fsmpb.Command_ExpandVolume:
		return "expand volume " + clip(c.ExpandVolume.GetVolumeId())
	case *fsmpb.Command_ModifyVolume:
		return "modify volume " + clip(c.ModifyVolume.GetVolumeId())
	case *fsmpb.Command_CreateSnapshot:
		return fmt.Sprintf("create snapshot %q", clip(c.CreateSnapshot.GetName()))
	case *fsmpb.Command_DeleteSnapshot:
		return "delete snapshot " + clip(c.DeleteSnapshot.GetSnapshotId())
	case *fsmpb.Command_CreateGroupSnapshot:
		return fmt.Sprintf("create group snapshot %q", clip(c.CreateGroupSnapshot.GetName()))
	case *fsmpb.Command_DeleteGroupSnapshot:
		return "delete group snapshot " + clip(c.DeleteGroupSnapshot.GetGroupSnapshotId())
	case *fsmpb.Command_CreateVolumeGroup:
		return fmt.Sprintf("create volume group %q", clip(c.CreateVolumeGroup.GetName()))
	case *fsmpb.Command_ModifyVolumeGroup:
		return "modify volume group " + clip(c.ModifyVolumeGroup.GetVolumeGroupId())
	case *fsmpb.Command_DeleteVolumeGroup:
		return "delete volume group " + clip(c.DeleteVolumeGroup.GetVolumeGroupId())
	case *fsmpb.Command_FenceNetwork, *fsmpb.Command_UnfenceNetwork:
		return "fence"
	case *fsmpb.Command_EnableReplication:
		return "enable replication"
	case *fsmpb.Command_DisableReplication:
		return "disable replication"
	case *fsmpb.Command_PromoteReplication:
		return "promote"
	case *fsmpb.Command_DemoteReplication:
		return "demote"
	case *fsmpb.Command_ResyncReplication:
		return "resync"
	}
	return "the command"
}
