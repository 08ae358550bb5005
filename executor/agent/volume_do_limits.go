package agent

import (
	"context"
	"errors"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// throttle records first that limits may be in force on the device: its device number will be
// another volume's one day.
func (j *job) throttle(ctx context.Context, have *plan.ObservedVolume) error {
	if !j.v.record.MayBeLimited {
		j.v.record.MayBeLimited = true
		if err := j.records.saveRecord(j.v, true); err != nil {
			return err
		}
	}
	return j.tolerateLimitsError(j.applyLimits(ctx, have, *j.want.Limits))
}

// tolerateLimitsError lets a volume be used although its limits cannot be put in force on this
// host: a limit is no reason to keep a workload from its data. The volume's condition says so. A
// request for other limits fails with the error.
func (j *job) tolerateLimitsError(err error) error {
	var rej *fsm.Rejection
	missing := errors.As(err, &rej) && rej.Reason == fsm.Precondition
	if err != nil && !missing {
		return err
	}
	if changed := j.setLimitsError(j.v, rej); changed {
		j.logger(j.v).Warn("the volume is used without its I/O limits", "error", err)
	}
	if missing && j.want.Grant == nil && j.want.Expanding {
		return err
	}
	if missing {
		j.want.Limits = nil // until the next reconciliation
		j.steps--           // no step was done
	}
	return nil
}

// setLimitsError remembers why no limits are in force; nil: they are.
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

func (j *job) applyLimits(ctx context.Context, have *plan.ObservedVolume, limits fsm.Limits) error {
	j.v.appliedLimits = nil // however it ends
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

// unthrottle removes the limits from a device that is about to be deactivated.
func (j *job) unthrottle(ctx context.Context, have *plan.ObservedVolume) error {
	if !j.v.record.MayBeLimited || j.Throttle == nil {
		return nil
	}
	return j.applyLimits(ctx, have, fsm.Limits{})
}
