package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// endLoser ends what is left of a replica that lost, after its writers got their errors
// (S9): mounts, the role, the resource.
func (e *Executor) endLoser(ctx context.Context, v *volume, h *replicaHave) error {
	if h.busy || h.Primary {
		j := &job{Executor: e, v: v, want: &desired{volume: v.id}}
		if err := j.down(ctx); err != nil {
			return err
		}
		e.hit("end-loser.down")
	}
	v.replica.adjusted, v.replica.discarding = false, false
	return e.Replicator.Down(ctx, v.id)
}

// endFreeze ends the frozen I/O of a replica that lost, or that nobody may write to any
// more, in errors (S9). It waits for no lock: whoever has the volume's may be frozen.
func (e *Executor) endFreeze(ctx context.Context, v *volume) error {
	have, err := e.mirror(ctx, v)
	if err != nil || !have.Suspended {
		return err
	}
	if have.Disk > diskDiskless {
		e.hit("end-freeze.before")
		if err := e.giveUpDisk(ctx, v); err != nil {
			return err
		}
		e.hit("end-freeze.after")
	}
	return e.failFrozen(ctx, v, &have)
}

// giveUpPatience is how long the kernel may take to give a disk up: it runs a helper first.
const giveUpPatience = 5 * time.Second

// giveUpDisk has the kernel give the disk up, and waits until it has: while the disk is
// still Failed, to resume would begin a generation of its own on it, and its next
// handshake with the peer would find a split brain (S9).
func (e *Executor) giveUpDisk(ctx context.Context, v *volume) error {
	before, err := e.mirror(ctx, v)
	if err != nil {
		return err
	}
	e.tookDisk(v, &before)
	if err := e.Replicator.Detach(ctx, v.id, true); err != nil {
		return err
	}
	for began := time.Now(); ; {
		m, err := e.mirror(ctx, v)
		switch {
		case err != nil || !m.InKernel || m.Disk <= diskDiskless:
			return err
		case time.Since(began) > giveUpPatience:
			return stillFailing(v, &m)
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func stillFailing(v *volume, m *Mirror) error {
	return fsm.Reject(fsm.Busy, "volume %s: the kernel has not given up its disk yet: it is in state %s", v.id, m.Disk)
}

// failFrozen ends the frozen I/O of a replica whose disk was detached. The kernel fails
// what was blocked, but completes as done a write that this host's disk had taken and
// only the peer had not confirmed. A filesystem whose last write of a sync that was
// would acknowledge what the other side does not have: so it is shut down before. Where
// that fails the replica stays frozen.
func (e *Executor) failFrozen(ctx context.Context, v *volume, m *Mirror) error {
	if err := e.Mounter.Shutdown(ctx, Device{Path: m.Path, Number: m.Number, Named: m.Path}); err != nil {
		return fmt.Errorf("end the frozen I/O of volume %s: %w", v.id, err)
	}
	e.hit("end-freeze.shut-down")
	now, err := e.mirror(ctx, v)
	switch {
	case err != nil:
		return err
	case now.InKernel && now.Disk > diskDiskless:
		return stillFailing(v, &now)
	}
	return e.Replicator.ResumeIO(ctx, v.id)
}

// selfFenceAfter is how long a loser may take to be torn down.
const selfFenceAfter = time.Minute

// watchLoser restarts the host, where that is asked for, when a replica that lost is
// primary for too long; else it stays as it is and is said (S9).
func (e *Executor) watchLoser(v *volume, m *Mirror, now time.Time) {
	e.mu.Lock()
	lost := v.wish != nil && v.wish.Replication != nil && v.wish.Replication.Outdated && (m.Primary || m.Suspended)
	if !lost {
		v.replica.lostSince = time.Time{}
	} else if v.replica.lostSince.IsZero() {
		v.replica.lostSince = now
	}
	since := v.replica.lostSince
	e.mu.Unlock()
	if since.IsZero() || now.Sub(since) < e.selfFenceAfter() {
		return
	}
	e.logger(v).Error("this replica lost and could not be torn down", "since", since, "reboots", e.SelfFence != nil)
	if e.SelfFence != nil {
		e.SelfFence()
	}
}

func (e *Executor) selfFenceAfter() time.Duration {
	if e.SelfFenceAfter > 0 {
		return e.SelfFenceAfter
	}
	return selfFenceAfter
}

// mirror observes the resource alone, without any lock.
func (e *Executor) mirror(ctx context.Context, v *volume) (Mirror, error) {
	view, err := e.view(v)
	if err != nil {
		return Mirror{}, err
	}
	have, err := view.look(ctx)
	if err != nil {
		return Mirror{}, err
	}
	return have.Mirror, nil
}

// suspects are the volumes that may be frozen, or lost.
func (e *Executor) suspects(ctx context.Context) ([]*volume, error) {
	frozen, err := e.Replicator.Suspended(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*volume
	listed := map[fsm.VolumeID]bool{}
	for _, id := range frozen {
		if v := e.volumes[id]; v != nil {
			all, listed[id] = append(all, v), true
		}
	}
	for id, v := range e.volumes {
		if listed[id] {
			continue
		}
		v.replica.frozenSince = time.Time{}
		if v.wish != nil && v.wish.Replication != nil && v.wish.Replication.Outdated {
			all = append(all, v)
		} else {
			v.replica.lostSince = time.Time{} // it lost no more, and nobody looks at it
		}
	}
	return all, nil
}
