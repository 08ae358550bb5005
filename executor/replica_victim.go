package executor

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// tearDownVictim ends what is left of a replica that lost, after its writers got their errors
// (S9): mounts, the role, the resource.
func (e *Executor) tearDownVictim(ctx context.Context, v *volume, h *observedReplica) error {
	if h.mounted || h.Primary {
		j := &job{Executor: e, v: v, want: &volumeSpec{volume: v.id}}
		if err := j.takeDown(ctx); err != nil {
			return err
		}
		e.hitFaultPoint("end-loser.down")
	}
	v.replica.adjusted, v.replica.discarding = false, false
	return e.Replicator.Down(ctx, v.id)
}

// endSuspension ends the frozen I/O of a replica that lost, or that nobody may write to any
// more, in errors (S9). It waits for no lock: whoever has the volume's may be frozen.
func (e *Executor) endSuspension(ctx context.Context, v *volume) error {
	have, err := e.resourceStatus(ctx, v)
	if err != nil || !have.Suspended {
		return err
	}
	if have.Disk > diskDiskless {
		e.hitFaultPoint("end-freeze.before")
		if err := e.detachDisk(ctx, v); err != nil {
			return err
		}
		e.hitFaultPoint("end-freeze.after")
	}
	return e.failSuspendedIO(ctx, v, &have)
}

// detachTimeout is how long the kernel may take to give a disk up: it runs a helper first.
const detachTimeout = 5 * time.Second

// detachDisk has the kernel give the disk up, and waits until it has: while the disk is
// still Failed, to resume would begin a generation of its own on it, and its next
// handshake with the peer would find a split brain (S9).
func (e *Executor) detachDisk(ctx context.Context, v *volume) error {
	before, err := e.resourceStatus(ctx, v)
	if err != nil {
		return err
	}
	e.noteDetach(v, &before)
	if err := e.Replicator.Detach(ctx, v.id, true); err != nil {
		return err
	}
	for began := time.Now(); ; {
		m, err := e.resourceStatus(ctx, v)
		switch {
		case err != nil || !m.InKernel || m.Disk <= diskDiskless:
			return err
		case time.Since(began) > detachTimeout:
			return errDiskNotDetached(v, &m)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func errDiskNotDetached(v *volume, m *ResourceStatus) error {
	return fsm.Reject(fsm.Busy, "volume %s: the kernel has not given up its disk yet: it is in state %s", v.id, m.Disk)
}

// failSuspendedIO ends the frozen I/O of a replica whose disk was detached. The kernel fails
// what was blocked, but completes as done a write that this host's disk had taken and
// only the peer had not confirmed. A filesystem whose last write of a sync that was
// would acknowledge what the other side does not have: so it is shut down before. Where
// that fails the replica stays frozen.
func (e *Executor) failSuspendedIO(ctx context.Context, v *volume, m *ResourceStatus) error {
	if err := e.Mounter.Shutdown(ctx, Device{Path: m.Path, Number: m.Number, StablePath: m.Path}); err != nil {
		return fmt.Errorf("end the frozen I/O of volume %s: %w", v.id, err)
	}
	e.hitFaultPoint("end-freeze.shut-down")
	now, err := e.resourceStatus(ctx, v)
	switch {
	case err != nil:
		return err
	case now.InKernel && now.Disk > diskDiskless:
		return errDiskNotDetached(v, &now)
	}
	return e.Replicator.ResumeIO(ctx, v.id)
}

// selfFenceAfter is how long a loser may take to be torn down.
const selfFenceAfter = time.Minute

// watchVictim restarts the host, where that is asked for, when a replica that lost is
// primary for too long; else it stays as it is and is said (S9).
func (e *Executor) watchVictim(v *volume, m *ResourceStatus, now time.Time) {
	e.mu.Lock()
	victim := v.desired != nil && v.desired.Replication != nil && v.desired.Replication.Outdated && (m.Primary || m.Suspended)
	if !victim {
		v.replica.victimSince = time.Time{}
	} else if v.replica.victimSince.IsZero() {
		v.replica.victimSince = now
	}
	since := v.replica.victimSince
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

// resourceStatus observes the resource alone, without any lock.
func (e *Executor) resourceStatus(ctx context.Context, v *volume) (ResourceStatus, error) {
	rb, err := e.replicaBackend(v)
	if err != nil {
		return ResourceStatus{}, err
	}
	have, err := rb.observe(ctx)
	if err != nil {
		return ResourceStatus{}, err
	}
	return have.ResourceStatus, nil
}

// suspendedOrVictims are the volumes that may be frozen, or lost.
func (e *Executor) suspendedOrVictims(ctx context.Context) ([]*volume, error) {
	suspended, err := e.Replicator.ListSuspended(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []*volume
	listed := map[fsm.VolumeID]bool{}
	for _, id := range suspended {
		if v := e.volumes[id]; v != nil {
			all, listed[id] = append(all, v), true
		}
	}
	for id, v := range e.volumes {
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
