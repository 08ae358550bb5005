package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// checkUnusedByPeer returns why a copy of a replica may be torn: the peer's host came to use the
// volume meanwhile, which this host's lock does not prevent. A pool that shares blocks takes the
// snapshot at one instant, so nothing can tear.
func (o *observer) checkUnusedByPeer(ctx context.Context, v *volume, before *plan.ObservedSource) error {
	if before.Replica == nil || before.SharesBlocks {
		return nil
	}
	have, err := o.observeVolume(ctx, v, nil)
	if err != nil {
		return err
	}
	after := plan.ObservedSource{ObservedVolume: have}
	if r := have.Replica; r != nil && !after.PeerWrites() && r.UUID == before.Replica.UUID && o.generationOf(v) == before.Generation {
		return nil
	}
	return fsm.Reject(fsm.Busy, "volume %s may have been used on the host of its other replica while it was copied", v.id)
}

// observeSource observes the volume. The caller holds the volume's lock.
func (o *observer) observeSource(ctx context.Context, v *volume, forGroup bool) (*plan.ObservedSource, executor.SnapshotBackend, error) {
	if err := o.records.openRecord(v); err != nil {
		return nil, nil, err
	}
	b, err := o.poolSet.backend(v)
	if err != nil {
		return nil, nil, err
	}
	backend, ok := b.(executor.SnapshotBackend)
	if r, isReplica := b.(*replicaBackend); isReplica && r.checkSnapshotPool() != nil {
		ok = false
	}
	if !ok {
		return nil, nil, fsm.Reject(fsm.Precondition, "the pool of volume %s cannot take snapshots", v.id)
	}
	generation := o.generationOf(v)
	have, err := o.observeVolume(ctx, v, nil)
	if err != nil {
		return nil, nil, err
	}
	s := &plan.ObservedSource{ObservedVolume: have, SharesBlocks: backend.SharesBlocks(), CanFreeze: o.Freezer != nil, ForGroup: forGroup, Generation: generation}
	staged := v.record.Staging
	s.RawWritable = staged != nil && staged.Block && have.Active() && !have.ReadOnly
	s.MountPath = plan.MountedAt(&have, staged)
	if s.Exists && s.MountPath != "" && !s.SharesBlocks {
		s.CopyFitsFreeze, err = o.fitsFreeze(ctx, backend, v.id)
	}
	return s, backend, err
}

// fitsFreeze reports whether everything allocated can be copied within one freeze.
func (o *observer) fitsFreeze(ctx context.Context, backend executor.SnapshotBackend, id fsm.VolumeID) (bool, error) {
	allocated, err := backend.Allocated(ctx, id)
	if err != nil {
		return false, err
	}
	rate, err := backend.CopyRate(ctx)
	if err != nil {
		return false, err
	}
	return float64(allocated) <= float64(rate)*o.MaxFreeze.Seconds(), nil
}
