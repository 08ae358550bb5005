package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

// kill kills a process, and starts it again at the end.
func kill(ctx context.Context, s *Scene) (*Injection, error) {
	m := s.leaderOrAny(ctx)
	if s.Rand.IntN(3) == 0 {
		m = pick(s, s.Cluster.Nodes())
	}
	pid := m.PID()
	if err := m.Kill(); err != nil || pid == 0 {
		return nil, errors.Join(err, m.Start(ctx))
	}
	return &Injection{Member: m.ID, Said: fmt.Sprintf("killed process %d of %s", pid, m.ID), End: func(ctx context.Context) (string, error) {
		return "it ended with " + m.Exited(), m.Start(ctx)
	}}, nil
}

// killAll kills every process at once.
func killAll(_ context.Context, s *Scene) (*Injection, error) {
	all := s.Cluster.Members()
	alive := slices.ContainsFunc(all, (*isolated.Member).Running)
	errs := make(chan error, len(all))
	for _, m := range all {
		go func() { errs <- m.Kill() }()
	}
	var failed error
	for range all {
		failed = errors.Join(failed, <-errs)
	}
	return &Injection{Said: "killed " + idsOf(all), Felt: func() bool { return alive }, End: func(ctx context.Context) (string, error) {
		return "all are started again", startAll(ctx, s.shuffled(all))
	}}, failed
}

func startAll(ctx context.Context, members []*isolated.Member) error {
	var errs []error
	for _, m := range members {
		errs = append(errs, m.Start(ctx))
	}
	return errors.Join(errs...)
}

// pause stops a process, and has it go on at the end.
func pause(ctx context.Context, s *Scene) (*Injection, error) {
	m := s.leaderOrAny(ctx)
	if s.Rand.IntN(4) == 0 {
		m = pick(s, s.Cluster.Nodes())
	}
	err := m.Pause()
	if errors.Is(err, isolated.ErrNoProcess) {
		return nil, nil //nolint:nilnil // there is nothing to pause
	}
	began := time.Now()
	return &Injection{Member: m.ID, Said: "paused " + m.ID, End: func(context.Context) (string, error) {
		return fmt.Sprintf("it stood still for %s", time.Since(began).Round(time.Millisecond)), m.Resume()
	}}, err
}

// steps are by how much clocks jump: below and above what a leader may be off, and far into either direction.
var steps = []time.Duration{2 * time.Second, -2 * time.Second, 8 * time.Second, -8 * time.Second, time.Hour, -time.Hour, 400 * 24 * time.Hour}

// clockStep sets the clock of a process, and sets it right at the end.
func clockStep(ctx context.Context, s *Scene) (*Injection, error) {
	m, ahead := s.leaderOrAny(ctx), pick(s, steps)
	if s.Rand.IntN(4) == 0 {
		m = pick(s, s.Cluster.Nodes())
	}
	err := m.StepClock(ahead)
	if errors.Is(err, isolated.ErrNoProcess) || errors.Is(err, isolated.ErrNoClock) {
		return nil, nil //nolint:nilnil // there is no clock to set
	}
	return &Injection{Member: m.ID, Said: fmt.Sprintf("set the clock of %s to %s ahead", m.ID, ahead), End: func(context.Context) (string, error) {
		err := m.StepClock(0)
		if errors.Is(err, isolated.ErrNoProcess) {
			return "its process ended meanwhile", nil
		}
		return "its clock is set right", err
	}}, err
}

// rollingRestart stops and starts all members, one after the other.
func rollingRestart(ctx context.Context, s *Scene) (*Injection, error) {
	all := s.shuffled(s.Cluster.Members())
	for _, m := range all {
		if err := m.Stop(ctx); err != nil {
			return nil, err
		}
		if err := m.Start(ctx); err != nil {
			return nil, err
		}
		if s.Rand.IntN(2) == 0 {
			if err := s.Cluster.AwaitServing(ctx); err != nil {
				return nil, fmt.Errorf("restart %s: %w", m.ID, err)
			}
		}
	}
	return &Injection{Said: "restarted " + idsOf(all), End: func(context.Context) (string, error) { return "each ended in order", nil }}, nil
}
