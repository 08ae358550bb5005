package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// source is what was observed of a volume that is to be cut or cloned.
type observedSource struct {
	observedVolume
	mountPath      string // where its filesystem is mounted; empty: nowhere
	rawWritable    bool   // its blocks are given out for writing
	sharesBlocks   bool   // the pool cuts without copying
	copyFitsFreeze bool   // a copy of what is allocated fits into the longest freeze
	canFreeze      bool   // the host can freeze
	forGroup       bool   // it is to be held quiet, not only cut
	// generation of a replicated volume was known when it was observed.
	generation uint64
}

// refusal says why the volume cannot be cut as it is (S19), nil when it can. It is
// pure. A raw volume that is written to is cut alone when the pool shares blocks: that
// cut is of one instant, as a loss of power is. It cannot be held quiet for a group.
func (s *observedSource) refusal(id fsm.VolumeID) *fsm.Rejection {
	switch {
	case s.Absent:
		return fsm.Reject(fsm.Unreachable, "the pool of volume %s is absent", id)
	case !s.Exists:
		return fsm.Reject(fsm.Precondition, "the device of volume %s is missing", id)
	case s.rawWritable && s.forGroup:
		return fsm.Reject(fsm.Precondition, "volume %s is published raw for writing: it cannot be held quiet for a group snapshot", id)
	case s.rawWritable && !s.sharesBlocks:
		return fsm.Reject(fsm.Precondition, "volume %s is published raw for writing, and its pool copies to cut: unpublish it first, or keep it in a pool that shares blocks (xfs with reflink=1, or LVM thin)", id)
	case s.peerWrites() && !s.sharesBlocks:
		return fsm.Reject(fsm.Precondition, "volume %s is used on the host of its other replica, or is synchronised from there, and its pool copies to cut: it is cut there, or when it is unpublished", id)
	case s.mountPath != "" && !s.canFreeze:
		return fsm.Reject(fsm.Precondition, "volume %s is staged, and this host cannot freeze filesystems", id)
	case s.mountPath != "" && !s.sharesBlocks && !s.copyFitsFreeze:
		return fsm.Reject(fsm.Precondition, "volume %s is staged and holds more than its pool can copy during the longest freeze: unstage it first, or keep it in a pool that shares blocks (xfs with reflink=1, or LVM thin)", id)
	}
	return nil
}

// peerWrites tells whether the other replica's host changes what this host has.
func (s *observedSource) peerWrites() bool {
	r := s.replica
	return r != nil && r.InKernel && (r.PeerRole == "Primary" || r.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET)
}

// checkUnusedByPeer says why what was copied of a replica may be torn, as the other one's host came to
// use the volume meanwhile: nobody there waits for this host's lock. A pool that shares
// cuts at one instant.
func (o *observer) checkUnusedByPeer(ctx context.Context, v *volume, before *observedSource) error {
	if before.replica == nil || before.sharesBlocks {
		return nil
	}
	have, err := o.observeVolume(ctx, v, nil)
	if err != nil {
		return err
	}
	after := observedSource{observedVolume: have}
	if r := have.replica; r != nil && !after.peerWrites() && r.UUID == before.replica.UUID && o.generationOf(v) == before.generation {
		return nil
	}
	return fsm.Reject(fsm.Busy, "volume %s may have been used on the host of its other replica while it was copied", v.id)
}

// observeSource observes the volume. The caller holds its lock.
func (o *observer) observeSource(ctx context.Context, v *volume, forGroup bool) (*observedSource, SnapshotBackend, error) {
	if err := o.records.openRecord(v); err != nil {
		return nil, nil, err
	}
	b, err := o.poolSet.backend(v)
	if err != nil {
		return nil, nil, err
	}
	backend, ok := b.(SnapshotBackend)
	if r, isReplica := b.(*replicaBackend); isReplica && r.checkSnapshotPool() != nil {
		ok = false
	}
	if !ok {
		return nil, nil, fsm.Reject(fsm.Precondition, "the pool of volume %s cannot cut snapshots", v.id)
	}
	generation := o.generationOf(v)
	have, err := o.observeVolume(ctx, v, nil)
	if err != nil {
		return nil, nil, err
	}
	s := &observedSource{observedVolume: have, sharesBlocks: backend.SharesBlocks(), canFreeze: o.Freezer != nil, forGroup: forGroup, generation: generation}
	staged := v.record.Staging
	s.rawWritable = staged != nil && staged.Block && have.Active() && !have.ReadOnly
	s.mountPath = mountedAt(&have, staged)
	if s.Exists && s.mountPath != "" && !s.sharesBlocks {
		s.copyFitsFreeze, err = o.fitsFreeze(ctx, backend, v.id)
	}
	return s, backend, err
}

// mountedAt is a path where the volume's filesystem is mounted; one is as good as
// another to freeze it.
func mountedAt(have *observedVolume, staged *stagingRecord) string {
	switch {
	case staged != nil && staged.Block:
		return ""
	case have.staged && staged != nil:
		return staged.Path
	case len(have.boundTargets) > 0:
		return have.boundTargets[0]
	case len(have.foreignMounts) > 0:
		return have.foreignMounts[0]
	case have.staged:
		return have.stagingPath
	}
	return ""
}

// fitsFreeze tells whether all that is allocated can be copied under a freeze.
func (o *observer) fitsFreeze(ctx context.Context, backend SnapshotBackend, id fsm.VolumeID) (bool, error) {
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

// runFrozen runs cut while nothing of the volume's filesystem can change: under a freeze
// of its own when it is mounted. The caller holds the volume's lock.
func (f *sourceFreezer) runFrozen(ctx context.Context, v *volume, s *observedSource, take func(context.Context) error) error {
	if s.mountPath == "" {
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

// runUnderFreeze cuts under a freeze. That it ended meanwhile hides no child that cannot be killed.
func runUnderFreeze(ctx context.Context, freeze Freeze, take func(context.Context) error) error {
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

// freeze freezes the volume's filesystem for the longest time at most.
func (f *sourceFreezer) freeze(ctx context.Context, v *volume, s *observedSource) (Freeze, error) {
	ctx, cancel := context.WithTimeout(ctx, f.MaxFreeze)
	defer cancel()
	f.hitFaultPoint("freeze.before")
	began := time.Now()
	freeze, err := f.Freezer.Freeze(ctx, v.id, s.mountPath, began.Add(f.MaxFreeze))
	f.hitFaultPoint("freeze.after")
	f.metrics.observeStep(stepFreeze, began, err)
	if err != nil {
		return nil, fmt.Errorf("freeze volume %s: %w", v.id, err)
	}
	return freeze, nil
}

func (f *sourceFreezer) thaw(ctx context.Context, freeze Freeze) error {
	f.hitFaultPoint("thaw.before")
	began := time.Now()
	err := freeze.Thaw(context.WithoutCancel(ctx))
	f.hitFaultPoint("thaw.after")
	f.metrics.observeStep(stepThaw, began, err)
	return err
}
