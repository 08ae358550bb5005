package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// check bounds what enters the state.
func (c *Claim) check() *Rejection {
	if c != nil && max(len(c.Name), len(c.Namespace), len(c.Volume)) > maxIDBytes {
		return Reject(Invalid, "a name of the volume's claim is longer than %d bytes", maxIDBytes)
	}
	return nil
}

// updateClaim records what the orchestrator calls the volume now; unset or equal: unchanged.
func (v *Volume) updateClaim(p *fsmpb.Claim) *Rejection {
	updated := ClaimFrom(p)
	if updated == nil || v.Claim != nil && *v.Claim == *updated {
		return nil
	}
	v.Claim = updated
	return updated.check()
}

// initialLimits are the limits that the volume was created with.
func (v *Volume) initialLimits() Limits {
	if v.InitialLimits != nil {
		return *v.InitialLimits
	}
	return v.Limits
}
