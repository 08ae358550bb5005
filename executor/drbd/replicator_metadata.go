package drbd

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.MetadataWiper = (*Replicator)(nil)

// CreateMetadata creates the metadata on the backing device. Existing ones are always kept:
// overwriting them would lose what they say of the content.
func (r *Replicator) CreateMetadata(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.with(ctx, id, "make the metadata of", func(s *step, d procDevice, inKernel bool) error {
		if inKernel && d.attached() {
			return nil
		}
		backing, err := r.files.backing(id)
		if err != nil {
			return err
		}
		current, err := r.metadata.stored(ctx, s.minor, backing)
		if err != nil {
			return classifyError(s.action, id, err)
		}
		if current.found {
			return nil
		}
		// Forced: nobody is there to confirm. The check above made sure that nothing is
		// overwritten.
		return s.run(ctx, "create-md", "--force")
	})
}

// RemakeMetadata creates the metadata again, over existing ones, on a disk that is not attached:
// all its content counts as outdated, and everything is copied from the peer.
func (r *Replicator) RemakeMetadata(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.with(ctx, id, "make the metadata anew of", func(s *step, d procDevice, inKernel bool) error {
		if inKernel && d.attached() {
			return s.reject(fsm.InUse, "its disk is attached")
		}
		return s.run(ctx, "create-md", "--force")
	})
}

// WipeMetadata removes the metadata from the backing device of a volume that is being created as a
// copy: they were copied with the content and belong to the source. InUse while the disk is
// attached.
func (r *Replicator) WipeMetadata(ctx context.Context, id fsm.VolumeID) error {
	return r.steps.with(ctx, id, "remove the source's metadata from", func(s *step, d procDevice, inKernel bool) error {
		if inKernel && d.attached() {
			return fsm.Reject(fsm.InUse, "the replica of volume %s is attached", id)
		}
		backing, err := r.files.backing(id)
		if err != nil {
			return err
		}
		current, err := r.metadata.stored(ctx, s.minor, backing)
		if err != nil {
			return classifyError(s.action, id, err)
		}
		if !current.found {
			return nil
		}
		return s.run(ctx, "--", "--force", "wipe-md")
	})
}
