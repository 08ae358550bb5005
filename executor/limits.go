package executor

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/fsm"
)

// limit puts the wanted limits in force on the attached device, and takes off those
// that may be left on it.
func nextLimits(want *volumeSpec, have *observedVolume) step {
	if want.limits == nil {
		return step{}
	}
	wanted := *want.limits
	switch {
	case have.limits != nil && *have.limits == wanted:
	case have.limits == nil && wanted == (fsm.Limits{}) && !have.mayBeLimited:
	case !want.canThrottle && (want.grant != nil || !want.expanding): // told as a condition
	case !want.canThrottle:
		return refuse(fsm.Precondition, "volume %s has I/O limits, which this host cannot put in force", want.volume)
	default:
		return step{kind: stepThrottle}
	}
	return step{}
}

// throttle records first that there may be limits on the device: its number will be
// another volume's one day.
func (j *job) throttle(ctx context.Context, have *observedVolume) error {
	if !j.v.record.MayBeLimited {
		j.v.record.MayBeLimited = true
		if err := j.records.saveRecord(j.v, true); err != nil {
			return err
		}
	}
	return j.tolerateLimitsError(j.applyLimits(ctx, have, *j.want.limits))
}

// unbounded has a volume be used although its limits cannot be put in force on this
// host: a limit is no reason to keep a workload from its data. The volume's condition
// says so. Whoever asks for other limits is told the error.
func (j *job) tolerateLimitsError(err error) error {
	var rej *fsm.Rejection
	missing := errors.As(err, &rej) && rej.Reason == fsm.Precondition
	if err != nil && !missing {
		return err
	}
	if changed := j.setLimitsError(j.v, rej); changed {
		j.logger(j.v).Warn("the volume is used without its I/O limits", "error", err)
	}
	if missing && j.want.grant == nil && j.want.expanding {
		return err
	}
	if missing {
		j.want.limits = nil // until somebody looks again
		j.steps--           // nothing was done
	}
	return nil
}

// setLimitsError remembers why there are no limits in force; nil: they are.
func (w *volumeWorker) setLimitsError(v *volume, rej *fsm.Rejection) (changed bool) {
	why := ""
	if rej != nil {
		why = rej.Message
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = why != "" && why != v.limitsError
	v.limitsError = why
	return changed
}

func (j *job) applyLimits(ctx context.Context, have *observedVolume, limits fsm.Limits) error {
	j.v.appliedLimits = nil // whatever becomes of it
	if err := j.Throttle.Apply(ctx, have.Device, limits); err != nil {
		return err
	}
	j.v.appliedLimits = &limits
	if limits != (fsm.Limits{}) || !j.v.record.MayBeLimited {
		return nil
	}
	j.v.record.MayBeLimited = false
	return j.records.saveRecord(j.v, false)
}

// unthrottle takes the limits off a device that is about to go.
func (j *job) unthrottle(ctx context.Context, have *observedVolume) error {
	if !j.v.record.MayBeLimited || j.Throttle == nil {
		return nil
	}
	return j.applyLimits(ctx, have, fsm.Limits{})
}
