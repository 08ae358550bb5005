package admin

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replicationSentence says what an entry does to the replication between two sites; empty for other entries, unless
// one ended what a role waited for.
func replicationSentence(e *adminpb.HistoryEntry) string {
	parts := append(roleSentence(e), rolesMoved(e)...)
	return strings.Join(parts, "; ")
}

func roleSentence(e *adminpb.HistoryEntry) []string {
	site := fsm.SiteFrom(e.GetCommand().GetSite())
	switch body := e.GetCommand().GetBody().(type) {
	case *fsmpb.Command_EnableReplication:
		return []string{enableSentence(site, body.EnableReplication)}
	case *fsmpb.Command_DisableReplication:
		return []string{fmt.Sprintf("site %s ends the replication, or its claim of it", site)}
	case *fsmpb.Command_PromoteReplication:
		return promoteSentence(site, e, body.PromoteReplication)
	case *fsmpb.Command_DemoteReplication:
		return []string{fmt.Sprintf("site %s gives up the role, or accepts that it lost it", site)}
	case *fsmpb.Command_ResyncReplication:
		return []string{resyncSentence(site, body.ResyncReplication)}
	case *fsmpb.Command_CancelConversion:
		return []string{"the conversion to a replicated volume was not done in time, and is undone"}
	case *fsmpb.Command_KeepReplica:
		return keepSentence(body.KeepReplica)
	}
	return nil
}

func enableSentence(site fsm.Site, c *fsmpb.EnableReplication) string {
	text := fmt.Sprintf("site %s replicates with site %s", site, fsm.SiteFrom(c.GetPeerSite()))
	if c.GetPeerNode() != "" {
		text += ", to node " + c.GetPeerNode()
	}
	return text
}

// promoteSentence says of each volume what a forced promotion gave up.
func promoteSentence(site fsm.Site, e *adminpb.HistoryEntry, c *fsmpb.PromoteReplication) []string {
	text := fmt.Sprintf("site %s becomes primary", site)
	if c.GetForce() {
		text += ", by force if it must"
	}
	if c.GetReason() != "" {
		text += ": " + c.GetReason()
	}
	parts := []string{text}
	for _, g := range e.GetOutcome().GetGivenUp() {
		parts = append(parts, fmt.Sprintf("%s: %s", g.GetVolumeId(), givenUpText(g)))
	}
	return parts
}

func resyncSentence(site fsm.Site, c *fsmpb.ResyncReplication) string {
	text := fmt.Sprintf("the replicas of site %s take part again", site)
	switch {
	case c.GetForce() && c.GetDiscardUnkept():
		return text + "; what was given up by force there is discarded, also where it cannot be kept"
	case c.GetForce():
		return text + "; what was given up by force there is kept and discarded"
	}
	return text
}

// keepSentence is about a copy that is taken before a resynchronisation; other copies need no sentence.
func keepSentence(c *fsmpb.KeepReplica) []string {
	switch {
	case !c.GetBeforeSync():
		return nil
	case c.GetTrouble() != "":
		return []string{"what the replica has is not kept before the resynchronisation: " + c.GetTrouble()}
	}
	return []string{"what the replica has is kept before the resynchronisation"}
}

// rolesMoved says which roles an entry gave to a site after they had waited.
func rolesMoved(e *adminpb.HistoryEntry) (parts []string) {
	for _, r := range e.GetOutcome().GetRoleMoved() {
		parts = append(parts, fmt.Sprintf("with that the role of %s%s moved from site %s to site %s", r.GetVolumeId(), r.GetVolumeGroupId(), r.GetFrom(), r.GetSite()))
	}
	return parts
}
