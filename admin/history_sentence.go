package admin

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// sentenceOf says what an entry of sites, groups, fences, revocations, reclaims and encryption is about; empty for other
// entries, whose kind and subject say it.
func sentenceOf(e *adminpb.HistoryEntry) string {
	switch body := e.GetCommand().GetBody().(type) {
	case *fsmpb.Command_RegisterMember:
		return fmt.Sprintf("controller %s acts for site %s", body.RegisterMember.GetName(), fsm.SiteFrom(body.RegisterMember.GetSite()))
	case *fsmpb.Command_FenceNetwork:
		return fenceSentence(e, "fence of "+strings.Join(body.FenceNetwork.GetCidrs(), ", "), "binds")
	case *fsmpb.Command_UnfenceNetwork:
		return fenceSentence(e, "end of the fence of "+strings.Join(body.UnfenceNetwork.GetCidrs(), ", "), "frees")
	case *fsmpb.Command_CreateVolumeGroup:
		return fmt.Sprintf("group %s of %s", body.CreateVolumeGroup.GetName(), CountOf(len(body.CreateVolumeGroup.GetVolumeIds()), "volume"))
	case *fsmpb.Command_ModifyVolumeGroup:
		return "the group has " + CountOf(len(body.ModifyVolumeGroup.GetVolumeIds()), "volume") + " from now on"
	case *fsmpb.Command_DeleteVolumeGroup:
		if body.DeleteVolumeGroup.GetKeepVolumes() {
			return "the group goes if it has no volumes"
		}
		return "the group goes with its volumes"
	case *fsmpb.Command_BeginReclaim:
		return "what the unpublished volume does not use is discarded"
	case *fsmpb.Command_EndReclaim:
		return "that discarding ends before it is done"
	case *fsmpb.Command_BeginKeyRotation:
		return "a new key for the volume"
	case *fsmpb.Command_RestoreHeader:
		return fmt.Sprintf("the node may restore LUKS header %s: %s", body.RestoreHeader.GetLuksUuid(), body.RestoreHeader.GetReason())
	case *fsmpb.Command_RevokeIdentity:
		return revokeSentence(body.RevokeIdentity)
	case *fsmpb.Command_UnrevokeIdentity:
		return fmt.Sprintf("the certificates of %s/%s are good again", body.UnrevokeIdentity.GetRole(), body.UnrevokeIdentity.GetName())
	case *fsmpb.Command_UseAttestedToken:
		return fmt.Sprintf("node/%s gets a certificate: %s attests it", body.UseAttestedToken.GetName(), body.UseAttestedToken.GetAttestedBy())
	case *fsmpb.Command_SetOutOfService:
		if since := body.SetOutOfService.GetReturned(); since != 0 {
			return fmt.Sprintf("the node, which was out of service since index %d, returns", since)
		}
		return "the node is out of service: what its host held ends"
	case *fsmpb.Command_RecordOperatorCall:
		return strings.TrimSpace(body.RecordOperatorCall.GetCall() + " " + body.RecordOperatorCall.GetSubject())
	case *fsmpb.Command_Report:
		return reportSentence(e)
	}
	return replicationSentence(e)
}

func fenceSentence(e *adminpb.HistoryEntry, what, verb string) string {
	nodes := "no host"
	if bound := e.GetFencedNodes(); len(bound) > 0 {
		nodes = strings.Join(bound, ", ")
	}
	return fmt.Sprintf("%s for %s %s %s", what, fsm.FenceOwnerOf(e.GetActor(), e.GetCommand().GetSite()), verb, nodes)
}

func revokeSentence(c *fsmpb.RevokeIdentity) string {
	what := strings.Join(c.GetSerials(), ", ")
	if c.GetIssuedUntil() != 0 {
		what = strings.TrimSpace("all issued until " + untilView(fsm.TimeOf(c.GetIssuedUntil())) + " " + what)
	}
	return fmt.Sprintf("certificates of %s/%s are revoked (%s): %s", c.GetRole(), c.GetName(), what, c.GetReason())
}

// reportSentence says what came of a reclaim, and how far a key rotation is.
func reportSentence(e *adminpb.HistoryEntry) string {
	var parts []string
	for _, o := range e.GetCommand().GetReport().GetObservations() {
		switch fact := o.GetFact().(type) {
		case *fsmpb.Observation_Reclaimed:
			parts = append(parts, reclaimedSentence(fact.Reclaimed))
		case *fsmpb.Observation_KeyAdded:
			parts = append(parts, fmt.Sprintf("the new key opens slot %d, and so does the former its own", fact.KeyAdded.GetSlot()))
		case *fsmpb.Observation_KeyDropped:
			parts = append(parts, "only the new key opens the header")
		case *fsmpb.Observation_ConversionUndone:
			parts = append(parts, "the conversion to a replicated volume is undone: the device is what it was")
		case *fsmpb.Observation_ReplicaReverted:
			parts = append(parts, "the replica went back to kept copy "+fact.ReplicaReverted.GetSnapshotId())
		}
	}
	parts = append(parts, rolesMoved(e)...)
	for _, k := range e.GetOutcome().GetKeyRotated() {
		if k.GetSnapshots() > 0 {
			parts = append(parts, "former keys still open "+CountOf(k.GetSnapshots(), "snapshot"))
		}
		if nodes := k.GetNodeIds(); len(nodes) > 0 {
			parts = append(parts, "former keys may still open the replica on "+strings.Join(nodes, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

func reclaimedSentence(r *fsmpb.Reclaimed) string {
	switch {
	case r.GetError() != "":
		return "nothing more was reclaimed: " + r.GetError()
	case !r.GetKnown():
		return "done, and the pool cannot tell how much it gave back"
	}
	return fmt.Sprintf("it gave back %s of %s", formatSize(max(0, r.GetBeforeBytes()-r.GetAfterBytes())), formatSize(r.GetBeforeBytes()))
}
