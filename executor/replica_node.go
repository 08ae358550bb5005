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
func (rw *replicaWorker) watchReplicas() {
	for rw.ctx.Err() == nil {
		err := rw.Replicator.Watch(rw.ctx, rw.replicaChanged)
		if rw.ctx.Err() == nil {
			rw.Logger.Warn("what the kernel says of replicas is not heard", "error", err)
		}
		_ = sleep(rw.ctx, time.Second)
	}
}

func (rw *replicaWorker) replicaChanged(id fsm.VolumeID) {
	rw.mu.Lock()
	_, known := rw.volumes[id]
	rw.mu.Unlock()
	if known {
		rw.volumeQueue.add(id)
	}
}

// attachPrimary makes the replica primary for the call's grant, and lets the volume
// grow to what the devices below have room for.
func (j *job) attachPrimary(ctx context.Context) error {
	j.hitFaultPoint("set-primary.before")
	err := j.replicaWorker.promote(ctx, j.v, j.call, j.want.grant.epoch)
	j.hitFaultPoint("set-primary.after")
	if err != nil {
		return err
	}
	have, err := j.observer.observeVolume(ctx, j.v, j.want)
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
func (p *poolSet) replicatedSource(w *fsm.DesiredSnapshot, pool Backend) (*replicaBackend, error) {
	p.mu.Lock()
	v := p.volumes[w.Source]
	p.mu.Unlock()
	if v == nil {
		return nil, nil
	}
	rb, err := p.newReplicaBackend(v, pool)
	if rb == nil || err != nil {
		return nil, err
	}
	return rb, rb.checkSnapshotPool()
}

// cleanReplicas takes all replicas out of the kernel, after what is mounted of them.
// Their devices below stay.
func (c *cleaner) cleanReplicas(ctx context.Context) error {
	if c.Replicator == nil {
		return nil
	}
	c.mu.Lock()
	var all []*volume
	for _, v := range c.volumes {
		if v.recordCopy.Replica != nil {
			all = append(all, v)
		}
	}
	c.mu.Unlock()
	var errs []error
	for _, v := range all {
		errs = append(errs, c.cleanReplica(ctx, v))
	}
	return errors.Join(errs...)
}

func (c *cleaner) cleanReplica(ctx context.Context, v *volume) error {
	if err := c.cleanRecord(ctx, v); err != nil {
		return err
	}
	have, err := c.observer.resourceStatus(ctx, v)
	if err != nil || !have.InKernel {
		return err
	}
	if have.Primary {
		if err := c.Replicator.SetSecondary(ctx, v.id); err != nil {
			return err
		}
	}
	return c.Replicator.Down(ctx, v.id)
}
