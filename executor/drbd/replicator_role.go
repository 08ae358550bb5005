package drbd

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// NewUUID creates the first current UUID of a volume whose replicas are connected and just
// created, so that the initial sync copies nothing. It never creates a later one (S8: no force is
// needed for it).
func (r *Replicator) NewUUID(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.withKernel(ctx, id, "make the first generation of", func(s *step, d procDevice) error {
		if !d.attached() {
			return s.reject(fsm.Precondition, kernelRejections[-11].text)
		}
		md, err := r.metadata.attached(ctx, s.minor)
		switch {
		case err != nil:
			return err
		case !md.fresh && diskState(d) == fsmpb.DiskState_DISK_STATE_UP_TO_DATE:
			return nil
		case !md.fresh:
			return s.reject(fsm.Precondition, "its disk held another generation before")
		case d.connection != "Connected" || d.disk != "Inconsistent" || d.peerDisk != "Inconsistent":
			return s.reject(fsm.Precondition, "its two replicas are not connected and just created")
		}
		return s.run(ctx, "--", "--clear-bitmap", "new-current-uuid")
	})
}

// SetPrimary makes the replica primary. When it is not connected the kernel runs the fence-peer
// handler first and waits for it.
func (r *Replicator) SetPrimary(ctx context.Context, id fsm.VolumeID, force bool) error {
	return r.steps.withKernel(ctx, id, "set primary", func(s *step, d procDevice) error {
		switch {
		case d.primary():
			return nil
		case force:
			return s.run(ctx, "primary", "--force")
		}
		return s.run(ctx, "primary")
	})
}

// SetSecondary makes the replica secondary; Busy while the device is open.
func (r *Replicator) SetSecondary(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.with(ctx, id, "set secondary", func(s *step, d procDevice, inKernel bool) error {
		if !inKernel || !d.primary() {
			return nil
		}
		return s.run(ctx, "secondary")
	})
}

// SuspendIO suspends the I/O of a primary (S45). Repeated, it changes nothing.
func (r *Replicator) SuspendIO(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.withKernel(ctx, id, "suspend the I/O of", func(s *step, d procDevice) error {
		if !d.primary() {
			return s.reject(fsm.Precondition, "it is not primary")
		}
		return s.run(ctx, "suspend-io")
	})
}

// ResumeIO resumes I/O that the kernel suspended (S9).
func (r *Replicator) ResumeIO(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.withKernel(ctx, id, "resume the I/O of", func(s *step, d procDevice) error {
		if !d.suspended {
			return nil
		}
		return s.run(ctx, "resume-io")
	})
}
