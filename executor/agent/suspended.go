package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// suspendedOrVictims are the volumes whose I/O may be suspended, or that may be victims.
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
	for _, id := range sortedKeys(s.volumes) {
		v := s.volumes[id]
		if listed[id] {
			continue
		}
		v.replica.suspendedSince = time.Time{}
		if v.isOutdated() {
			all = append(all, v)
		} else {
			v.replica.victimSince = time.Time{} // it is no victim any more
		}
	}
	return all, nil
}

// watchSuspended checks each second for suspended I/O and asks for a verdict itself: the kernel
// does not call a handler that died again, and may never have called one (S6).
func (s *suspendedWatcher) watchSuspended() {
	ticker := time.NewTicker(suspensionInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
		}
		s.watchIsolation(time.Now())
		volumes, err := s.suspendedOrVictims(s.ctx)
		if err != nil {
			s.Logger.Warn("cannot list the replicas whose I/O is suspended", "error", err)
		}
		for _, v := range volumes {
			s.watchSuspendedVolume(v)
		}
	}
}

// watchSuspendedVolume checks one volume, without making the others wait.
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
			s.logger(v).Warn("the I/O of the volume stays suspended", "error", err)
		}
		s.enqueue(v)
	})
}

// resolveSuspension ends suspended I/O by its verdict. It calls ResumeIO on an attached disk only
// for a request of this process about the current loss, which no handler will finish (S9).
func (s *suspendedWatcher) resolveSuspension(ctx context.Context, v *volume) error {
	status, err := s.observer.resourceStatus(ctx, v)
	if err != nil {
		return err
	}
	s.watchVictim(v, &status, time.Now())
	if !status.Suspended || s.suspendedFor(v, time.Now()) < s.HandlerGrace {
		return nil
	}
	if plantedbug.Is(plantedbug.ResumeBeforeVerdict) {
		return s.Replicator.ResumeIO(ctx, v.id)
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
	case req.verdict == verdictSelfOutdated, req.verdict == verdictRefused && (s.isRevoked(v) || s.nobodyCompletes(v, &status)):
		return s.endSuspension(ctx, v)
	case req.verdict != verdictPeerOutdated || req.promoting || s.hasHandler(req):
		return nil
	}
	s.setResuming(v, true) // before verdictStillHolds is checked
	defer s.setResuming(v, false)
	if verdict, err := s.fencePeer.verdictStillHolds(ctx, v, req); verdict != verdictPeerOutdated || err != nil {
		return err
	}
	s.hitFaultPoint("resume-io.before")
	err = s.Replicator.ResumeIO(ctx, v.id)
	s.hitFaultPoint("resume-io.after")
	return err
}

// setResuming notes that this process begins, or is done, ending suspended I/O. The peer may return
// and be lost again after verdictStillHolds, and the kernel would continue under the old verdict.
// That is safe as long as the log calls the peer outdated: so no observation with a
// generation, which could change that, is made meanwhile (S7).
func (s *suspendedWatcher) setResuming(v *volume, begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v.replica.endingSuspension = begins
	if !begins {
		v.replica.resumeCount++
	}
}

// suspendedFor is how long the volume's I/O has been seen suspended. At first the kernel's handler,
// which is on its way, is left to bring the verdict: only then does the kernel itself record
// that the peer is outdated, which survives a reboot.
func (s *suspendedWatcher) suspendedFor(v *volume, now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.replica.suspendedSince.IsZero() {
		v.replica.suspendedSince = now
	}
	return now.Sub(v.replica.suspendedSince)
}

// hasHandler reports whether a handler of the kernel waits for the same verdict and will deliver it.
func (s *suspendedWatcher) hasHandler(req *fencePeerRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return req.handlers > 0
}

// nobodyCompletes reports whether, by this session's desired state, what is suspended would wait for ever. A status
// of before the verdict is enough: a disk that is gone does not come back under a primary without a peer.
func (s *suspendedWatcher) nobodyCompletes(v *volume, status *executor.ResourceStatus) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := v.desired
	return s.session.number != 0 && s.session.adopted && d != nil && d.Replication != nil && plan.NobodyCompletes(d.Replication, status)
}

// isRevoked reports whether, by this session's desired state, nobody may write to the volume on
// this host any more.
func (s *suspendedWatcher) isRevoked(v *volume) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := v.desired
	if s.session.number == 0 || !s.session.adopted || d == nil {
		return false
	}
	return d.Goal == fsm.GoalRemove || plan.IsRevoked(d, v.recordCopy.Staging)
}
