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
type source struct {
	observed
	mounted string // where its filesystem is mounted; empty: nowhere
	raw     bool   // its blocks are given out for writing
	shares  bool   // the pool cuts without copying
	fits    bool   // a copy of what is allocated fits into the longest freeze
	freezes bool   // the host can freeze
	group   bool   // it is to be held quiet, not only cut
	// generation of a replicated volume was known when it was observed.
	generation uint64
}

// refusal says why the volume cannot be cut as it is (S19), nil when it can. It is
// pure. A raw volume that is written to is cut alone when the pool shares blocks: that
// cut is of one instant, as a loss of power is. It cannot be held quiet for a group.
func (s *source) refusal(id fsm.VolumeID) *fsm.Rejection {
	switch {
	case s.Absent:
		return fsm.Reject(fsm.Unreachable, "the pool of volume %s is absent", id)
	case !s.Exists:
		return fsm.Reject(fsm.Precondition, "the device of volume %s is missing", id)
	case s.raw && s.group:
		return fsm.Reject(fsm.Precondition, "volume %s is published raw for writing: it cannot be held quiet for a group snapshot", id)
	case s.raw && !s.shares:
		return fsm.Reject(fsm.Precondition, "volume %s is published raw for writing, and its pool copies to cut: unpublish it first, or keep it in a pool that shares blocks (xfs with reflink=1, or LVM thin)", id)
	case s.moves() && !s.shares:
		return fsm.Reject(fsm.Precondition, "volume %s is used on the host of its other replica, or is synchronised from there, and its pool copies to cut: it is cut there, or when it is unpublished", id)
	case s.mounted != "" && !s.freezes:
		return fsm.Reject(fsm.Precondition, "volume %s is staged, and this host cannot freeze filesystems", id)
	case s.mounted != "" && !s.shares && !s.fits:
		return fsm.Reject(fsm.Precondition, "volume %s is staged and holds more than its pool can copy during the longest freeze: unstage it first, or keep it in a pool that shares blocks (xfs with reflink=1, or LVM thin)", id)
	}
	return nil
}

// moves tells whether the other replica's host changes what this host has.
func (s *source) moves() bool {
	r := s.replica
	return r != nil && r.InKernel && (r.PeerRole == "Primary" || r.Connection == fsmpb.ConnectionState_CONNECTION_STATE_SYNC_TARGET)
}

// moved says why what was copied of a replica may be torn, as the other one's host came to
// use the volume meanwhile: nobody there waits for this host's lock. A pool that shares
// cuts at one instant.
func (e *Executor) moved(ctx context.Context, v *volume, before *source) error {
	if before.replica == nil || before.shares {
		return nil
	}
	have, err := e.observe(ctx, v, nil)
	if err != nil {
		return err
	}
	after := source{observed: have}
	if r := have.replica; r != nil && !after.moves() && r.UUID == before.replica.UUID && e.generationOf(v) == before.generation {
		return nil
	}
	return fsm.Reject(fsm.Busy, "volume %s may have been used on the host of its other replica while it was copied", v.id)
}

// lookAtSource observes the volume. The caller holds its lock.
func (e *Executor) lookAtSource(ctx context.Context, v *volume, group bool) (*source, SnapshotBackend, error) {
	if err := e.open(v); err != nil {
		return nil, nil, err
	}
	b, err := e.backend(v)
	if err != nil {
		return nil, nil, err
	}
	backend, ok := b.(SnapshotBackend)
	if r, replicated := b.(*replicaView); replicated && r.canCopy() != nil {
		ok = false
	}
	if !ok {
		return nil, nil, fsm.Reject(fsm.Precondition, "the pool of volume %s cannot cut snapshots", v.id)
	}
	generation := e.generationOf(v)
	have, err := e.observe(ctx, v, nil)
	if err != nil {
		return nil, nil, err
	}
	s := &source{observed: have, shares: backend.Shares(), freezes: e.Freezer != nil, group: group, generation: generation}
	held := v.journal.Staging
	s.raw = held != nil && held.Block && have.Attached() && !have.ReadOnly
	s.mounted = mountedAt(&have, held)
	if s.Exists && s.mounted != "" && !s.shares {
		s.fits, err = e.fitsFreeze(ctx, backend, v.id)
	}
	return s, backend, err
}

// mountedAt is a path where the volume's filesystem is mounted; one is as good as
// another to freeze it.
func mountedAt(have *observed, held *staging) string {
	switch {
	case held != nil && held.Block:
		return ""
	case have.staged && held != nil:
		return held.Path
	case len(have.bound) > 0:
		return have.bound[0]
	case len(have.strange) > 0:
		return have.strange[0]
	case have.staged:
		return have.stagedAt
	}
	return ""
}

// fitsFreeze tells whether all that is allocated can be copied under a freeze.
func (e *Executor) fitsFreeze(ctx context.Context, backend SnapshotBackend, id fsm.VolumeID) (bool, error) {
	allocated, err := backend.Allocated(ctx, id)
	if err != nil {
		return false, err
	}
	rate, err := backend.CopyRate(ctx)
	if err != nil {
		return false, err
	}
	return float64(allocated) <= float64(rate)*e.FreezeMax.Seconds(), nil
}

// quietly runs cut while nothing of the volume's filesystem can change: under a freeze
// of its own when it is mounted. The caller holds the volume's lock.
func (e *Executor) quietly(ctx context.Context, v *volume, s *source, cut func(context.Context) error) error {
	if s.mounted == "" {
		if err := cut(ctx); err != nil {
			return err
		}
		return e.moved(ctx, v, s)
	}
	frozen, err := e.freeze(ctx, v, s)
	if err != nil {
		return err
	}
	err = cutUnder(ctx, frozen, cut)
	return errors.Join(err, e.thaw(ctx, frozen))
}

// cutUnder cuts under a freeze. That it ended meanwhile hides no child that cannot be killed.
func cutUnder(ctx context.Context, frozen Freeze, cut func(context.Context) error) error {
	var own error
	err := frozen.Cut(ctx, func(ctx context.Context) error {
		own = cut(ctx)
		return own
	})
	if stuckIn(own) != nil && stuckIn(err) == nil {
		err = errors.Join(err, own)
	}
	return err
}

// freeze freezes the volume's filesystem for the longest time at most.
func (e *Executor) freeze(ctx context.Context, v *volume, s *source) (Freeze, error) {
	ctx, cancel := context.WithTimeout(ctx, e.FreezeMax)
	defer cancel()
	e.hit("freeze.before")
	began := time.Now()
	frozen, err := e.Freezer.Freeze(ctx, v.id, s.mounted, began.Add(e.FreezeMax))
	e.hit("freeze.after")
	e.metrics.step(stepFreeze, began, err)
	if err != nil {
		return nil, fmt.Errorf("freeze volume %s: %w", v.id, err)
	}
	return frozen, nil
}

func (e *Executor) thaw(ctx context.Context, frozen Freeze) error {
	e.hit("thaw.before")
	began := time.Now()
	err := frozen.Thaw(context.WithoutCancel(ctx))
	e.hit("thaw.after")
	e.metrics.step(stepThaw, began, err)
	return err
}
