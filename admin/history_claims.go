package admin

import (
	"slices"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxDeletedClaims bounds how many claims of deleted volumes are remembered at once.
const maxDeletedClaims = 10_000

// claims finds the orchestrator's names of the volumes in a history. An entry's own claim comes
// first, then the state's, then, for a deleted volume, the one that an earlier entry had.
type claims struct {
	state   *fsm.State
	deleted map[string]*adminpb.Claim
}

// ofEntry returns the claims of the entry's volumes, nil when none is known.
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
		claim := claimView(fsm.ClaimFrom(given))
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

// claimInEntry returns the claim that the entry's command sets for that volume, else nil: the claim
// of a clone is not that of its source.
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
