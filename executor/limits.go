package executor

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// limit puts the wanted limits in force on the attached device, and takes off those
// that may be left on it.
func limit(want *desired, have *observed) step {
	if want.limits == nil {
		return step{}
	}
	wanted := *want.limits
	switch {
	case have.limits != nil && *have.limits == wanted:
	case have.limits == nil && wanted == (fsm.Limits{}) && !have.limited:
	case !want.throttles:
		return refuse(fsm.Precondition, "volume %s has I/O limits, which this host cannot put in force", want.volume)
	default:
		return step{kind: stepThrottle}
	}
	return step{}
}

// throttle records first that there may be limits on the device: its number will be
// another volume's one day.
func (j *job) throttle(ctx context.Context, have *observed) error {
	if !j.v.journal.Limited {
		j.v.journal.Limited = true
		if err := j.save(j.v, true); err != nil {
			return err
		}
	}
	return j.apply(ctx, have, *j.want.limits)
}

func (j *job) apply(ctx context.Context, have *observed, limits fsm.Limits) error {
	j.v.applied = nil // whatever becomes of it
	if err := j.Throttle.Apply(ctx, have.Device, limits); err != nil {
		return err
	}
	j.v.applied = &limits
	if limits != (fsm.Limits{}) || !j.v.journal.Limited {
		return nil
	}
	j.v.journal.Limited = false
	return j.save(j.v, false)
}

// unthrottle takes the limits off a device that is about to go.
func (j *job) unthrottle(ctx context.Context, have *observed) error {
	if !j.v.journal.Limited || j.Throttle == nil {
		return nil
	}
	return j.apply(ctx, have, fsm.Limits{})
}
