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

// recordConverted forgets how large the image was once its conversion is over: the log may be restored to the middle of it,
// and what was written since is not cut off when it is then undone (S1, S55).
func (rw *replicaWorker) recordConverted(v *volume, view *plan.VolumeView) error {
	r, d := v.record.Replica, view.Desired
	if r == nil || r.PlainBytes == 0 || d == nil || d.Replication == nil || !view.Actionable || !d.Replication.InitialSyncDone || plan.Converts(d) {
		return nil
	}
	return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.PlainBytes = 0 })
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
