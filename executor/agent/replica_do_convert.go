package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// beginConversion records how large the image is before anything of it is changed (S55). An image of another size than the
// volume's is not converted: what lies behind the volume's size would be DRBD's.
func (rw *replicaWorker) beginConversion(v *volume, want *plan.ReplicaSpec, h *plan.ObservedReplica) error {
	if size := want.Size + rw.headerBytesOf(v); h.Backing.Size != size {
		return fsm.Reject(fsm.Precondition, "volume %s is not converted: its image has %d bytes, not %d", v.id, h.Backing.Size, size)
	}
	return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.PlainBytes = h.Backing.Size })
}

// extendBacking makes room for DRBD's metadata behind the content.
func (rw *replicaWorker) extendBacking(ctx context.Context, v *volume, want *plan.ReplicaSpec) error {
	rb, err := rw.poolSet.replicaBackend(v)
	if err != nil {
		return err
	}
	return rb.Expand(ctx, v.id, want.Size)
}

// shrinkBacking cuts off what a conversion added: the image is as large as it was, and has the content that it had.
func (rw *replicaWorker) shrinkBacking(ctx context.Context, v *volume, h *plan.ObservedReplica) error {
	rb, err := rw.poolSet.replicaBackend(v)
	if err != nil {
		return err
	}
	return rb.Shrink(ctx, v.id, h.PlainBytes-rb.header)
}
