package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// attachPrimary makes the replica primary for the call's grant, and grows the volume to what the
// backing devices of all replicas can hold.
func (j *job) attachPrimary(ctx context.Context) error {
	j.hitFaultPoint("set-primary.before")
	err := j.replicaWorker.promote(ctx, j.v, j.call, j.want.Grant.Epoch)
	j.hitFaultPoint("set-primary.after")
	if err != nil {
		return err
	}
	have, err := j.observer.observeVolume(ctx, j.v, j.want)
	if err != nil || have.Replica == nil {
		return err
	}
	j.mu.Lock()
	d := j.v.desired
	j.mu.Unlock()
	if d == nil || d.Replication == nil {
		return nil
	}
	want := &plan.ReplicaSpec{DesiredReplica: d.Replication, Goal: d.Goal, Size: d.Size}
	if plan.NextResize(want, have.Replica).Kind == plan.StepNone {
		return nil
	}
	return j.Replicator.Resize(ctx, j.v.id, d.Size+j.headerBytesOf(j.v), want.IsOnly())
}

// promote asks for the right to be primary and uses it at once: in this session, after the
// observation (S2). That the replica may have writes from here on is recorded before (S9).
func (rw *replicaWorker) promote(ctx context.Context, v *volume, c *call, epoch fsm.Epoch) error {
	session, err := rw.actingSession()
	if err != nil {
		return err
	}
	obs, err := rw.observer.observeToReport(ctx, v)
	if err != nil {
		return err
	}
	outcome, err := rw.proposer.propose(ctx, c, &fsmpb.Command{Body: &fsmpb.Command_SetPrimary{SetPrimary: &fsmpb.SetPrimary{
		VolumeId: string(v.id), NodeId: string(rw.Node), HostId: string(rw.Host.ID), BootId: rw.Host.BootID,
		Epoch: epoch.Proto(), Seen: obs.Proto(),
	}}})
	if err != nil {
		return err
	}
	rw.hitFaultPoint("set-primary.granted")
	rw.mu.Lock()
	v.replica.generation = max(v.replica.generation, outcome.GetGeneration())
	rw.mu.Unlock()
	err = rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) {
		r.BeginWrites()
		if outcome.GetForce() {
			r.ClearDiskFailure() // it continues with what it has, by a decision
		}
	})
	if err != nil {
		return err
	}
	if !rw.sessionHolds(session) && !plantedbug.Is(plantedbug.OldGrantUsed) {
		return errSessionChanged
	}
	obs.Generation = outcome.GetGeneration()
	rw.setPromotion(v, &obs)
	defer rw.setPromotion(v, nil)
	return rw.Replicator.SetPrimary(ctx, v.id, outcome.GetForce())
}

// setPromotion notes the observation that the kernel's fence-peer handler is answered from while
// this process promotes the replica (S13); nil: it does not.
func (rw *replicaWorker) setPromotion(v *volume, obs *fsm.ReplicaObservation) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	v.replica.promotion = obs
	if obs != nil {
		v.replica.generation = max(v.replica.generation, obs.Generation)
	}
}
