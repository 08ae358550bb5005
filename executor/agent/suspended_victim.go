package agent

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor"
)

// selfFenceAfter is how long tearing down a victim may take.
const selfFenceAfter = time.Minute

// watchVictim restarts the host, where that is configured, when a victim stays primary for too
// long; else the victim stays as it is, and an error is logged (S9).
func (s *suspendedWatcher) watchVictim(v *volume, status *executor.ResourceStatus, now time.Time) {
	s.mu.Lock()
	victim := v.isOutdated() && (status.Primary || status.Suspended)
	if !victim {
		v.replica.victimSince = time.Time{}
	} else if v.replica.victimSince.IsZero() {
		v.replica.victimSince = now
	}
	since := v.replica.victimSince
	s.mu.Unlock()
	if since.IsZero() || now.Sub(since) < s.selfFenceAfter() {
		return
	}
	s.logger(v).Error("the outdated replica could not be torn down", "since", since, "reboots", s.SelfFence != nil)
	if s.SelfFence != nil {
		s.SelfFence()
	}
}

func (s *suspendedWatcher) selfFenceAfter() time.Duration {
	if s.SelfFenceAfter > 0 {
		return s.SelfFenceAfter
	}
	return selfFenceAfter
}
