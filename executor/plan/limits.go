package plan

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// NextLimits puts the desired limits in force on the active device, and removes those that
// an earlier process may have left on it.
func NextLimits(want *VolumeSpec, have *ObservedVolume) Step {
	if want.Limits == nil {
		return Step{}
	}
	wanted := *want.Limits
	switch {
	case have.Limits != nil && *have.Limits == wanted:
	case have.Limits == nil && wanted == (fsm.Limits{}) && !have.mayBeLimited:
	case !want.CanThrottle && (want.Grant != nil || !want.Expanding): // the volume's condition says so
	case !want.CanThrottle:
		return refuse(fsm.Precondition, "volume %s has I/O limits, which this host cannot put in force", want.Volume)
	default:
		return Step{Kind: StepThrottle}
	}
	return Step{}
}
