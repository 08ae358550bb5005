package plan

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// limit puts the wanted limits in force on the attached device, and takes off those
// that may be left on it.
func NextLimits(want *VolumeSpec, have *ObservedVolume) Step {
	if want.Limits == nil {
		return Step{}
	}
	wanted := *want.Limits
	switch {
	case have.Limits != nil && *have.Limits == wanted:
	case have.Limits == nil && wanted == (fsm.Limits{}) && !have.mayBeLimited:
	case !want.CanThrottle && (want.Grant != nil || !want.Expanding): // told as a condition
	case !want.CanThrottle:
		return refuse(fsm.Precondition, "volume %s has I/O limits, which this host cannot put in force", want.Volume)
	default:
		return Step{Kind: StepThrottle}
	}
	return Step{}
}
