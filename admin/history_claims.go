package admin

import (
	"slices"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// maxGone is of how many volumes that are gone the claims are remembered at once.
const maxGone = 10_000

// claims are what the orchestrator calls the volumes of a history: as an entry says
// itself, as the state has it, or as an earlier entry said of what is gone since.
type claims struct {
	state *fsm.State
	gone  map[string]*adminpb.Claim
}

// of are the claims of the entry's volumes, nil when none is known.
func (c *claims) of(e *adminpb.HistoryEntry) []*adminpb.Claim {
	all := each(e.GetVolumes(), func(id string) *adminpb.Claim { return c.find(id, claimSaid(e, id)) })
	if !slices.ContainsFunc(all, func(claim *adminpb.Claim) bool { return claim.GetName() != "" || claim.GetVolume() != "" }) {
		return nil
	}
	return all
}

func (c *claims) find(id string, said *fsmpb.Claim) *adminpb.Claim {
	v, here := c.state.Volume(fsm.VolumeID(id))
	switch {
	case said != nil:
		claim := &adminpb.Claim{Name: said.GetName(), Namespace: said.GetNamespace(), Volume: said.GetVolume()}
		if !here {
			c.remember(id, claim)
		}
		return claim
	case here && v.Claim != nil:
		return claimView(v.Claim)
	case c.gone[id] != nil:
		return c.gone[id]
	}
	return &adminpb.Claim{}
}

func (c *claims) remember(id string, claim *adminpb.Claim) {
	if len(c.gone) >= maxGone {
		clear(c.gone)
	}
	c.gone[id] = claim
}

// claimSaid is the claim that the entry's command gives that volume, nil when it gives
// none: a clone's is not its source's.
func claimSaid(e *adminpb.HistoryEntry, id string) *fsmpb.Claim {
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
