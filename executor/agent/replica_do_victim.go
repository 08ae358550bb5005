package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// tearDownVictim ends what is left of a victim after its writers got errors (S9): its mounts,
// then its role, then the resource.
func (rw *replicaWorker) tearDownVictim(ctx context.Context, v *volume, h *plan.ObservedReplica) error {
	if h.Mounted || h.Primary {
		j := &job{volumeWorker: rw.volumeWorker, v: v, want: &plan.VolumeSpec{Volume: v.id}}
		if err := j.takeDown(ctx); err != nil {
			return err
		}
		rw.hitFaultPoint("end-loser.down")
	}
	v.replica.adjusted, v.replica.discarding = false, false
	return rw.Replicator.Down(ctx, v.id)
}

// endSuspension makes suspended I/O fail, of a victim or where nobody may write any more (S9).
// It takes no lock of the volume: the holder may be blocked on that I/O.
func (s *suspendedWatcher) endSuspension(ctx context.Context, v *volume) error {
	have, err := s.observer.resourceStatus(ctx, v)
	if err != nil || !have.Suspended {
		return err
	}
	if plantedbug.Is(plantedbug.LoserResumed) {
		return s.Replicator.ResumeIO(ctx, v.id)
	}
	if have.Disk > plan.DiskDiskless {
		s.hitFaultPoint("end-freeze.before")
		if err := s.detachDisk(ctx, v); err != nil {
			return err
		}
		s.hitFaultPoint("end-freeze.after")
	}
	return s.failSuspendedIO(ctx, v, &have)
}

// detachIfDue detaches the disk if that is due by what the kernel shows now, too. I/O of a primary that was revoked may have
// gone on since it was observed: what was acknowledged then is known to be on the disk as long as this attachment lasts (S5).
func (rw *replicaWorker) detachIfDue(ctx context.Context, v *volume, want *plan.ReplicaSpec, h *plan.ObservedReplica) error {
	now := *h
	var err error
	if now.ResourceStatus, err = rw.observer.resourceStatus(ctx, v); err != nil {
		return err
	}
	if plan.NextReplicaStep(want, &now).Kind != plan.StepDetachDisk {
		return nil // it is observed anew
	}
	v.replica.attachBackoff.noteTry(time.Now())
	return rw.suspended.detachDisk(ctx, v)
}

// detachTimeout is how long the kernel may take to detach a disk: it runs a helper first.
const detachTimeout = 5 * time.Second

// detachDisk has the kernel detach the disk, and waits until it has. Resuming I/O while the disk
// is still Failed would begin a generation of its own on it, and the next handshake with the
// peer would find a split brain (S9).
func (s *suspendedWatcher) detachDisk(ctx context.Context, v *volume) error {
	before, err := s.observer.resourceStatus(ctx, v)
	if err != nil {
		return err
	}
	attachment := s.noteDetach(v, &before)
	if err := s.Replicator.Detach(ctx, v.id, true); err != nil {
		s.withdrawDetach(ctx, v)
		return err
	}
	for began := time.Now(); ; {
		status, err := s.observer.resourceStatus(ctx, v)
		switch {
		case err != nil:
			return err
		case !status.InKernel || status.Disk <= plan.DiskDiskless:
			s.recordDetached(v, attachment)
			return nil
		case time.Since(began) > detachTimeout:
			return errDiskNotDetached(v, &status)
		}
		if err := sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func errDiskNotDetached(v *volume, status *executor.ResourceStatus) error {
	return fsm.Reject(fsm.Busy, "volume %s: the kernel has not detached its disk yet: the disk is in state %s", v.id, status.Disk)
}

// failSuspendedIO ends the suspended I/O of a replica whose disk was detached. The kernel fails
// most of what was blocked, but completes successfully a write that this host's disk had taken
// and only the peer had not confirmed. If that was the last write of a sync, the filesystem would
// acknowledge data that the other replica does not have: so it is shut down first. If no sync
// follows the write, as with direct I/O that is durable by itself, its writer would take it for
// acknowledged: so all writers are killed. Where either fails, I/O stays suspended.
func (s *suspendedWatcher) failSuspendedIO(ctx context.Context, v *volume, status *executor.ResourceStatus) error {
	replica := executor.Device{Path: status.Path, Number: status.Number, StablePath: status.Path}
	device, _, err := s.aboveEncryption(ctx, v, replica)
	if err != nil {
		return err
	}
	if err := s.Mounter.Shutdown(ctx, device); err != nil {
		return fmt.Errorf("end the suspended I/O of volume %s: %w", v.id, err)
	}
	s.hitFaultPoint("end-freeze.shut-down")
	if err := s.endWriters(ctx, v, replica); err != nil {
		return fmt.Errorf("end the suspended I/O of volume %s: %w", v.id, err)
	}
	s.hitFaultPoint("end-freeze.killed")
	now, err := s.observer.resourceStatus(ctx, v)
	switch {
	case err != nil:
		return err
	case now.InKernel && now.Disk > plan.DiskDiskless:
		return errDiskNotDetached(v, &now)
	}
	return s.Replicator.ResumeIO(ctx, v.id)
}
