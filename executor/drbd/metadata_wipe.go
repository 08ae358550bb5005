package drbd

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.MetadataWiper = (*Replicator)(nil)

// WipeMetadata removes the metadata from the backing device of a volume that is being created as a
// copy: they were copied with the content and belong to the source. InUse while the disk is
// attached.
func (r *Replicator) WipeMetadata(ctx context.Context, id fsm.VolumeID) error {
	return r.withStep(ctx, id, "remove the source's metadata from", func(s *step, d procDevice, inKernel bool) error {
		if inKernel && d.attached() {
			return fsm.Reject(fsm.InUse, "the replica of volume %s is attached", id)
		}
		backing, err := r.configuredBacking(id)
		if err != nil {
			return err
		}
		current, err := r.storedMetadata(ctx, s.minor, backing)
		if err != nil {
			return classifyError(s.action, id, err)
		}
		if !current.found {
			return nil
		}
		return s.run(ctx, "--", "--force", "wipe-md")
	})
}
