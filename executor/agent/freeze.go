package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// thawLeftovers thaws what earlier processes left frozen, before anything else (S19). What
// cannot be thawed now is thawed at its deadline by its freeze's own process.
func (f *sourceFreezer) thawLeftovers() {
	if f.Freezer == nil {
		return
	}
	if err := f.Freezer.Recover(f.ctx); err != nil {
		f.Logger.Error("cannot thaw the filesystems that an earlier process left frozen; each thaws at its deadline", "error", err)
	}
}

// runFrozen calls take while the volume's filesystem cannot change: under a freeze of its own
// when it is mounted. The caller holds the volume's lock.
func (f *sourceFreezer) runFrozen(ctx context.Context, v *volume, s *plan.ObservedSource, take func(context.Context) error) error {
	if s.MountPath == "" {
		if err := take(ctx); err != nil {
			return err
		}
		return f.observer.checkUnusedByPeer(ctx, v, s)
	}
	freeze, err := f.freeze(ctx, v, s)
	if err != nil {
		return err
	}
	err = runUnderFreeze(ctx, freeze, take)
	return errors.Join(err, f.thaw(ctx, freeze))
}

// runUnderFreeze calls take under a freeze. An unkillable child is reported even when the freeze
// ended meanwhile.
func runUnderFreeze(ctx context.Context, freeze executor.Freeze, take func(context.Context) error) error {
	var takeErr error
	err := freeze.Run(ctx, func(ctx context.Context) error {
		takeErr = take(ctx)
		return takeErr
	})
	if unkillableDone(takeErr) != nil && unkillableDone(err) == nil {
		err = errors.Join(err, takeErr)
	}
	return err
}

// freeze freezes the volume's filesystem for MaxFreeze at most.
func (f *sourceFreezer) freeze(ctx context.Context, v *volume, s *plan.ObservedSource) (executor.Freeze, error) {
	ctx, cancel := context.WithTimeout(ctx, f.MaxFreeze)
	defer cancel()
	f.hitFaultPoint("freeze.before")
	began := time.Now()
	freeze, err := f.Freezer.Freeze(ctx, v.id, s.MountPath, began.Add(f.MaxFreeze))
	f.hitFaultPoint("freeze.after")
	f.metrics.observeStep(plan.StepFreeze, began, err)
	if err != nil {
		return nil, fmt.Errorf("freeze volume %s: %w", v.id, err)
	}
	return freeze, nil
}

func (f *sourceFreezer) thaw(ctx context.Context, freeze executor.Freeze) error {
	if plantedbug.Is(plantedbug.FreezeWithoutThaw) {
		return nil
	}
	f.hitFaultPoint("thaw.before")
	began := time.Now()
	err := freeze.Thaw(context.WithoutCancel(ctx))
	f.hitFaultPoint("thaw.after")
	f.metrics.observeStep(plan.StepThaw, began, err)
	return err
}
