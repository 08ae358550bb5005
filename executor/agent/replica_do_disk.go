package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
)

// recordDiskState keeps what the kernel made of the disk of the last attachment, on disk before
// anything follows from it: that it has it, or that it gave it up by itself (S67). A disk
// that this process took away did not fail. The caller holds the lock.
func (rw *replicaWorker) recordDiskState(v *volume, h *plan.ObservedReplica) error {
	r := v.record.Replica
	if r == nil || r.Attachment == 0 || r.Boot != rw.Host.BootID || !h.InKernel {
		return nil
	}
	rw.mu.Lock()
	detachedHere := v.replica.detachedAttachment == r.Attachment
	rw.mu.Unlock()
	gone := h.Disk == plan.DiskDiskless || h.Disk == plan.DiskFailed
	switch {
	case h.Disk > plan.DiskFailed && r.GivenAttachment != r.Attachment:
		return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.GivenAttachment = r.Attachment })
	case !gone || detachedHere || r.GivenAttachment != r.Attachment || r.FailedAttachment == r.Attachment:
		return nil
	}
	rw.logger(v).Error("the kernel gave up the disk of this replica: all of it is to be copied again", "attachment", r.Attachment)
	return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) {
		r.FailedAttachment, r.PeerWasUpToDate = r.Attachment, h.Connection >= plan.ConnConnected && h.PeerDisk == plan.DiskUpToDate
	})
}

// remakeMetadata has nothing that the disk holds count any more. That it failed is
// forgotten only then: its metadata say from here on that it has nothing.
func (rw *replicaWorker) remakeMetadata(ctx context.Context, v *volume, h *plan.ObservedReplica) error {
	v.replica.attachBackoff.noteTry(time.Now())
	if err := rw.probeBacking(ctx, h); err != nil {
		return err
	}
	if still, err := rw.mustStillRemake(ctx, v); !still || err != nil {
		return err
	}
	if err := rw.Replicator.RemakeMetadata(ctx, v.id); err != nil {
		return err
	}
	rw.hitFaultPoint("remake-metadata.made")
	v.replica.attachBackoff.notBefore = time.Time{} // it is attached at once, and what fails again more seldom
	return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) {
		r.ClearDiskFailure()
		r.GivenAttachment = 0 // the kernel has it only after the next attachment
	})
}

// mustStillRemake looks again: to read a failing disk may take long, and the peer that it was to
// be copied from may have failed meanwhile.
func (rw *replicaWorker) mustStillRemake(ctx context.Context, v *volume) (bool, error) {
	s, _, err := rw.observer.view(ctx, v)
	if err != nil || s.Have.Replica == nil || s.Desired == nil || s.Desired.Replication == nil || !s.Actionable {
		return false, err
	}
	want, have := rw.replicaInputs(v, s)
	have.AttachDue = true // this is the try
	return plan.NextReplicaStep(want, have).Kind == plan.StepRemakeMetadata, nil
}

// noteDetach notes that this process takes the disk away, where the kernel still has it whole.
func (s *suspendedWatcher) noteDetach(v *volume, m *executor.ResourceStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := v.recordCopy.Replica; r != nil && r.Boot == s.Host.BootID && m.Disk > plan.DiskFailed {
		v.replica.detachedAttachment = r.Attachment
	}
}
