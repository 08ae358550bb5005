package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// suspendedOrVictims are the volumes that may be frozen, or lost.
func (s *suspendedWatcher) suspendedOrVictims(ctx context.Context) ([]*volume, error) {
	suspended, err := s.Replicator.ListSuspended(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*volume
	listed := map[fsm.VolumeID]bool{}
	for _, id := range suspended {
		if v := s.volumes[id]; v != nil {
			all, listed[id] = append(all, v), true
		}
	}
	for id, v := range s.volumes {
		if listed[id] {
			continue
		}
		v.replica.suspendedSince = time.Time{}
		if v.desired != nil && v.desired.Replication != nil && v.desired.Replication.Outdated {
			all = append(all, v)
		} else {
			v.replica.victimSince = time.Time{} // it lost no more, and nobody looks at it
		}
	}
	return all, nil
}

// watchSuspended looks each second for frozen resources and asks about them itself: a
// handler that died is not called again, and one may never have been called (S6).
func (s *suspendedWatcher) watchSuspended() {
	ticker := time.NewTicker(suspensionInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		volumes, err := s.suspendedOrVictims(s.ctx)
		if err != nil {
			s.Logger.Warn("the frozen resources are not known", "error", err)
		}
		for _, v := range volumes {
			s.watchSuspendedVolume(v)
		}
	}
}

// watchSuspendedVolume looks at one of them, without keeping the others waiting.
func (s *suspendedWatcher) watchSuspendedVolume(v *volume) {
	s.mu.Lock()
	busy := v.replica.fencePeerRequest != nil || v.watchingSuspension
	v.watchingSuspension = v.watchingSuspension || !busy
	s.mu.Unlock()
	if busy {
		return
	}
	s.wg.Go(func() {
		defer func() {
			s.mu.Lock()
			v.watchingSuspension = false
			s.mu.Unlock()
		}()
		if err := s.resolveSuspension(s.ctx, v); err != nil && s.ctx.Err() == nil {
			s.logger(v).Warn("the frozen volume stays frozen", "error", err)
		}
		s.enqueue(v)
	})
}

// resolveSuspension ends a freeze as its verdict says. ResumeIO without a detached disk is
// for this process's own question of this loss, that nobody else will finish (S9).
func (s *suspendedWatcher) resolveSuspension(ctx context.Context, v *volume) error {
	m, err := s.observer.resourceStatus(ctx, v)
	if err != nil {
		return err
	}
	s.watchVictim(v, &m, time.Now())
	if !m.Suspended || s.suspendedFor(v, time.Now()) < s.HandlerGrace {
		return nil
	}
	req, err := s.fencePeer.requestVerdict(ctx, v, false)
	if req == nil || err != nil {
		return err
	}
	select {
	case <-req.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	switch {
	case req.verdict == verdictSelfOutdated, req.verdict == verdictRefused && s.isRevoked(v):
		return s.endSuspension(ctx, v)
	case req.verdict != verdictPeerOutdated || req.promoting || s.hasHandler(req):
		return nil
	}
	s.setResuming(v, true) // from before it is seen that the verdict is of use
	defer s.setResuming(v, false)
	if verdict, err := s.fencePeer.verdictStillHolds(ctx, v, req); verdict != verdictPeerOutdated || err != nil {
		return err
	}
	s.hitFaultPoint("resume-io.before")
	err = s.Replicator.ResumeIO(ctx, v.id)
	s.hitFaultPoint("resume-io.after")
	return err
}

// resuming notes that this process ends a freeze. The peer may return and be lost again
// after the last look, and the kernel would go on under the old verdict all the same. That
// harms nobody as long as the log calls the peer Outdated: so it hears nothing else (S7).
func (s *suspendedWatcher) setResuming(v *volume, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.replica.resuming = begins
	if !begins {
		v.replica.resumeCount++
	}
}

// suspendedFor is since when the volume is seen frozen. The kernel's handler, which is on
// its way at first, is to bring the verdict: only then does the kernel itself keep that
// the peer is outdated, over a boot too.
func (s *suspendedWatcher) suspendedFor(v *volume, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.replica.suspendedSince.IsZero() {
		v.replica.suspendedSince = now
	}
	return now.Sub(v.replica.suspendedSince)
}

// hasHandler: the kernel's handler waits for the same answer, and will say it.
func (s *suspendedWatcher) hasHandler(req *fencePeerRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return req.handlers > 0
}

// isRevoked: nobody may write to the volume on this host any more, by the log's word of
// this session.
func (s *suspendedWatcher) isRevoked(v *volume) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := v.desired
	if s.session.number == 0 || !s.session.adopted || w == nil {
		return false
	}
	return w.Goal == fsm.GoalRemove || w.Teardown != nil && w.Publication == nil
}
