package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
)

// revertBacking gives the backing device the content of a kept copy (S43). Before it is touched the record says that it may
// not be attached: the copy has DRBD's metadata of its time, and bitmap and generations prove nothing any more. A volume
// that was expanded since is extended again; what is added reads as zero.
func (rw *replicaWorker) revertBacking(ctx context.Context, v *volume, want *plan.ReplicaSpec) error {
	rb, err := rw.poolSet.replicaBackend(v)
	if err != nil {
		return err
	}
	rw.withdrawAttachment(v)
	err = rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) {
		r.Reverting, r.ContentReverted, r.RevertedTo, r.GivenAttachment = want.RevertTo, false, "", 0
	})
	if err != nil {
		return err
	}
	rw.hitFaultPoint("revert-below.recorded")
	if err := rb.Revert(ctx, v.id, want.RevertTo); err != nil {
		return err
	}
	rw.hitFaultPoint("revert-below.reverted")
	if err := rb.Expand(ctx, v.id, want.Size); err != nil {
		return err
	}
	return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.ContentReverted = true })
}

// remakeReverted makes the metadata of a reverted device anew, and only then records that it may be attached: its disk is
// Inconsistent, and no peer takes it for what it was. What it has is in the kept copy, too.
func (rw *replicaWorker) remakeReverted(ctx context.Context, v *volume) error {
	if err := rw.Replicator.RemakeMetadata(ctx, v.id); err != nil {
		return err
	}
	rw.hitFaultPoint("remake-reverted.made")
	v.replica.attachBackoff, v.replica.connectBackoff = retryBackoff{}, retryBackoff{}
	err := rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) {
		r.RevertedTo = r.Reverting
		r.Reverting, r.ContentReverted, r.SharedUUID = "", false, 0
		r.MayHaveWrites, r.CopyKept = false, false
		r.ClearDiskFailure()
	})
	if err == nil {
		rw.logger(v).Warn("this replica went back to a kept copy, by a forced promotion", "snapshot", v.record.Replica.RevertedTo)
	}
	return err
}
