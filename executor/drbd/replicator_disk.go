package drbd

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Attach creates the resource and its device in the kernel and attaches the disk. drbdadm first
// replays the activity log, and finds metadata that a growth of the backing device left behind.
func (r *Replicator) Attach(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.with(ctx, id, "attach", func(s *step, d procDevice, inKernel bool) error {
		if inKernel && d.attached() {
			return nil
		}
		if !inKernel {
			if err := s.run(ctx, "new-resource"); err != nil {
				return err
			}
			if err := s.run(ctx, "new-minor"); err != nil {
				return err
			}
		}
		return s.run(ctx, "attach")
	})
}

// Detach detaches the disk; with force also while writes to it are stuck (S9).
func (r *Replicator) Detach(ctx context.Context, id fsm.VolumeID, force bool) error {
	return r.steps.with(ctx, id, "detach", func(s *step, d procDevice, inKernel bool) error {
		switch {
		case !inKernel || !d.attached():
			return nil
		case force:
			return s.run(ctx, "detach", "--force")
		}
		return s.run(ctx, "detach")
	})
}
