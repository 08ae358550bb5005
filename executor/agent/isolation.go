package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
)

// recordIsolation records whether the primary is frozen when it is isolated. A process that starts while no controller
// can be reached knows it from there. The caller holds the volume's lock.
func (rw *replicaWorker) recordIsolation(v *volume, view *plan.VolumeView) error {
	r, d := v.record.Replica, view.Desired
	if r == nil || d == nil || d.Replication == nil || !view.Actionable || r.FreezeIsolated == d.Replication.FreezeIsolated {
		return nil
	}
	return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.FreezeIsolated = d.Replication.FreezeIsolated })
}

// watchIsolation suspends the I/O of primaries without a peer when this host has had no session with a controller for the
// node timeout (S45): the other site may have been promoted by force meanwhile. It only ever refuses, so its clock
// decides nothing. The I/O is resumed as every other that is suspended, by a verdict of the log.
func (s *suspendedWatcher) watchIsolation(now time.Time) {
	for _, v := range s.isolatedVolumes(now) {
		s.wg.Go(func() {
			if err := s.freezeIsolated(s.ctx, v); err != nil && s.ctx.Err() == nil {
				s.logger(v).Warn("the I/O of an isolated primary cannot be suspended", "error", err)
			}
		})
	}
}

// isolatedVolumes are those that are to be frozen when they are primary without a peer; none while this host reaches a
// controller, or did not long ago.
func (s *suspendedWatcher) isolatedVolumes(now time.Time) (all []*volume) {
	reached := s.Reached == nil || s.Reached()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case reached:
		s.isolatedSince = time.Time{}
		return nil
	case s.isolatedSince.IsZero():
		s.isolatedSince = now
	}
	if now.Sub(s.isolatedSince) < s.NodeTimeout {
		return nil
	}
	for _, id := range sortedKeys(s.volumes) {
		if v := s.volumes[id]; v.freezesIsolated() {
			all = append(all, v)
		}
	}
	return all
}

// freezesIsolated is what the log, or else the record, says of the volume. The caller holds table.mu.
func (v *volume) freezesIsolated() bool {
	if v.desired != nil && v.desired.Replication != nil {
		return v.desired.Replication.FreezeIsolated
	}
	return v.recordCopy.Replica != nil && v.recordCopy.Replica.FreezeIsolated
}

// freezeIsolated disconnects first: a peer that came back while the I/O is suspended, and was lost again, would need a
// verdict of its own, and resuming asks for none. It takes no lock of the volume: the holder may wait for a controller.
func (s *suspendedWatcher) freezeIsolated(ctx context.Context, v *volume) error {
	status, err := s.observer.resourceStatus(ctx, v)
	if err != nil || !plan.FreezesIsolated(&status) {
		return err
	}
	s.hitFaultPoint("freeze-isolated.before")
	if err := s.Replicator.Disconnect(ctx, v.id); err != nil {
		return err
	}
	if err := s.Replicator.SuspendIO(ctx, v.id); err != nil {
		return err
	}
	s.hitFaultPoint("freeze-isolated.after")
	s.logger(v).Error("this primary reaches neither its peer nor a controller: its I/O is suspended until a controller says that it may go on")
	return nil
}
