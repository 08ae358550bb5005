package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Revert reverts the whole backing device, DRBD's metadata included. Those are of the snapshot's time:
// bitmap and UUIDs prove nothing, so they are remade before the disk is attached. It is InUse while the
// resource is in the kernel.
func (r *replicaBackend) Revert(ctx context.Context, id fsm.VolumeID, to fsm.SnapshotID) error {
	b, err := r.snapshotPool()
	if err != nil {
		return err
	}
	if err := r.checkDown(ctx); err != nil {
		return err
	}
	return b.Revert(ctx, id, to)
}

// Shrink cuts off what lies behind the volume's size bytes, DRBD's metadata: what is left is the image of a
// volume that is not replicated. It is InUse while the resource is in the kernel.
func (r *replicaBackend) Shrink(ctx context.Context, id fsm.VolumeID, size int64) error {
	b, err := r.snapshotPool()
	if err != nil {
		return err
	}
	if err := r.checkDown(ctx); err != nil {
		return err
	}
	return b.Shrink(ctx, id, size+r.header)
}
