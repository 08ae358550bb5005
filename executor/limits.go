package executor

import (
	"context"
	"errors"

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
	case !want.throttles && (want.grant != nil || !want.growing): // told as a condition
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
	return j.unbounded(j.apply(ctx, have, *j.want.limits))
}

// unbounded has a volume be used although its limits cannot be put in force on this
// host: a limit is no reason to keep a workload from its data. The volume's condition
// says so. Whoever asks for other limits is told the error.
func (j *job) unbounded(err error) error {
	var rej *fsm.Rejection
	missing := errors.As(err, &rej) && rej.Reason == fsm.Precondition
	if err != nil && !missing {
		return err
	}
	if news := j.sayUnbounded(j.v, rej); news {
		j.logger(j.v).Warn("the volume is used without its I/O limits", "error", err)
	}
	if missing && j.want.grant == nil && j.want.growing {
		return err
	}
	if missing {
		j.want.limits = nil // until somebody looks again
		j.steps--           // nothing was done
	}
	return nil
}

// sayUnbounded remembers why there are no limits in force; nil: they are.
func (e *Executor) sayUnbounded(v *volume, rej *fsm.Rejection) (news bool) {
	why := ""
	if rej != nil {
		why = rej.Message
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	news = why != "" && why != v.unbounded
	v.unbounded = why
	return news
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
