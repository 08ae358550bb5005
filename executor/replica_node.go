package executor

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// replicationOffer is what the host offers for replicated volumes, nil when it cannot hold
// any now: the kernel must be able to ask (S13).
func (e *Executor) replicationOffer() *fsmpb.Replication {
	if e.Replicator == nil || e.ReplicationAddress == "" {
		return nil
	}
	if err := e.Replicator.Check(e.ctx); err != nil {
		e.Logger.Error("this host cannot hold replicated volumes", "error", err)
		return nil
	}
	version, replicas := e.Replicator.Version()
	return &fsmpb.Replication{Address: e.ReplicationAddress, PublicKey: e.PublicKey, Version: version, MaxReplicas: replicas}
}

// watchReplicas looks at each volume of which the kernel says something new.
func (e *Executor) watchReplicas() {
	for e.ctx.Err() == nil {
		err := e.Replicator.Watch(e.ctx, e.replicaChanged)
		if e.ctx.Err() == nil {
			e.Logger.Warn("what the kernel says of replicas is not heard", "error", err)
		}
		_ = sleep(e.ctx, time.Second)
	}
}

func (e *Executor) replicaChanged(id fsm.VolumeID) {
	e.mu.Lock()
	_, known := e.volumes[id]
	e.mu.Unlock()
	if known {
		e.volumeQueue.add(id)
	}
}

// attachPrimary makes the replica primary for the call's grant, and lets the volume
// grow to what the devices below have room for.
func (j *job) attachPrimary(ctx context.Context) error {
	j.hitFaultPoint("set-primary.before")
	err := j.promote(ctx, j.v, j.call, j.want.grant.epoch)
	j.hitFaultPoint("set-primary.after")
	if err != nil {
		return err
	}
	have, err := j.observeVolume(ctx, j.v, j.want)
	if err != nil || have.replica == nil {
		return err
	}
	j.mu.Lock()
	w := j.v.desired
	j.mu.Unlock()
	if w == nil || w.Replication == nil {
		return nil
	}
	want := &replicaSpec{DesiredReplica: w.Replication, size: w.Size}
	if nextResize(want, have.replica).kind == stepNone {
		return nil
	}
	return j.Replicator.Resize(ctx, j.v.id, w.Size)
}

// replicatedSource is the view of a snapshot's source when that is replicated, else nil.
func (e *Executor) replicatedSource(w *fsm.DesiredSnapshot, pool Backend) (*replicaBackend, error) {
	e.mu.Lock()
	v := e.volumes[w.Source]
	e.mu.Unlock()
	if v == nil {
		return nil, nil
	}
	rb, err := e.newReplicaBackend(v, pool)
	if rb == nil || err != nil {
		return nil, err
	}
	return rb, rb.checkSnapshotPool()
}

// cleanReplicas takes all replicas out of the kernel, after what is mounted of them.
// Their devices below stay.
func (e *Executor) cleanReplicas(ctx context.Context) error {
	if e.Replicator == nil {
		return nil
	}
	e.mu.Lock()
	var all []*volume
	for _, v := range e.volumes {
		if v.recordCopy.Replica != nil {
			all = append(all, v)
		}
	}
	e.mu.Unlock()
	var errs []error
	for _, v := range all {
		errs = append(errs, e.cleanReplica(ctx, v))
	}
	return errors.Join(errs...)
}

func (e *Executor) cleanReplica(ctx context.Context, v *volume) error {
	if err := e.cleanRecord(ctx, v); err != nil {
		return err
	}
	have, err := e.resourceStatus(ctx, v)
	if err != nil || !have.InKernel {
		return err
	}
	if have.Primary {
		if err := e.Replicator.SetSecondary(ctx, v.id); err != nil {
			return err
		}
	}
	return e.Replicator.Down(ctx, v.id)
}
