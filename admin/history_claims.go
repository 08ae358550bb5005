package admin

import (
	"slices"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxDeletedClaims is of how many volumes that are gone the claims are remembered at once.
const maxDeletedClaims = 10_000

// claims are what the orchestrator calls the volumes of a history: as an entry says
// itself, as the state has it, or as an earlier entry said of what is gone since.
type claims struct {
	state   *fsm.State
	deleted map[string]*adminpb.Claim
}

// ofEntry are the claims of the entry's volumes, nil when none is known.
func (c *claims) ofEntry(e *adminpb.HistoryEntry) []*adminpb.Claim {
	all := mapSlice(e.GetVolumes(), func(id string) *adminpb.Claim { return c.claimOf(id, claimInEntry(e, id)) })
	if !slices.ContainsFunc(all, func(claim *adminpb.Claim) bool { return claim.GetName() != "" || claim.GetVolume() != "" }) {
		return nil
	}
	return all
}

func (c *claims) claimOf(id string, given *fsmpb.Claim) *adminpb.Claim {
	v, exists := c.state.Volume(fsm.VolumeID(id))
	switch {
	case given != nil:
		claim := &adminpb.Claim{Name: given.GetName(), Namespace: given.GetNamespace(), Volume: given.GetVolume()}
		if !exists {
			c.remember(id, claim)
		}
		return claim
	case exists && v.Claim != nil:
		return claimView(v.Claim)
	case c.deleted[id] != nil:
		return c.deleted[id]
	}
	return &adminpb.Claim{}
}

func (c *claims) remember(id string, claim *adminpb.Claim) {
	if len(c.deleted) >= maxDeletedClaims {
		clear(c.deleted)
	}
	c.deleted[id] = claim
}

// claimInEntry is the claim that the entry's command gives that volume, nil when it gives
// none: a clone's is not its source's.
func claimInEntry(e *adminpb.HistoryEntry, id string) *fsmpb.Claim {
	create, modify := e.GetCommand().GetCreateVolume(), e.GetCommand().GetModifyVolume()
	switch id {
	case e.GetOutcome().GetVolumeId(), create.GetVolumeId():
		if create != nil {
			return create.GetClaim()
		}
	}
	if id == modify.GetVolumeId() {
		return modify.GetClaim()
	}
	return nil
}
