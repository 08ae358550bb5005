package agent

import (
	"context"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// recordDiskState records what became of the last attachment's disk, before anything follows
// from it: the kernel has it attached, or detached it after an error (S67). A disk that this
// host detached itself did not fail. The caller holds the volume's lock.
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
	rw.logger(v).Error("the kernel detached the disk of this replica after an I/O error: the whole replica is to be copied again", "attachment", r.Attachment)
	return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) {
		r.FailedAttachment, r.PeerWasUpToDate = r.Attachment, h.Connection >= plan.ConnConnected && h.PeerDisk == plan.DiskUpToDate
	})
}

// failedSinceForced: the disk was attached as it is by a decision, and the log says of the same attachment
// that it failed. It failed since, unless this desired state is older than the grant. The caller
// holds the volume's lock.
func (rw *replicaWorker) failedSinceForced(v *volume, d *fsm.DesiredReplica) bool {
	r := v.record.Replica
	return d.DiskFailed != 0 && d.DiskFailed == r.Attachment && r.GivenAttachment == r.Attachment && d.Generation >= rw.generationOf(v)
}

// peerBehind reports whether the disk went on in a generation of its own since both replicas were
// last seen together. Before level 2 the log does not know the question. The caller holds table.mu.
func (t *table) peerBehind(r *records.ReplicaRecord, h *plan.ObservedReplica) bool {
	return r != nil && t.session.level >= fsm.Level2 && r.SharedUUID != 0 && h.UUID != 0 && h.UUID != r.SharedUUID && h.BitmapUUID != 0
}

// failedAttachment is the attachment whose disk failed, as the host recorded. Before level 2 the log does
// not know the field. The caller holds table.mu.
func (t *table) failedAttachment(r *records.ReplicaRecord) uint64 {
	if r == nil || t.session.level < fsm.Level2 {
		return 0
	}
	return r.FailedAttachment
}

// failureKnown reports whether the log knows of the failure that the host recorded, or is beyond noting it: the
// disk is not used yet, or was attached again as it was.
func failureKnown(r *records.ReplicaRecord, d *fsm.DesiredReplica) bool {
	return d.DiskFailed != 0 || !d.InitialSyncDone || r.FailedAttachment < d.Attachment
}

// remakeMetadata makes the metadata anew, so that nothing on the disk counts any more. Only then
// is the failure forgotten: from here on the metadata themselves say that there is no data.
func (rw *replicaWorker) remakeMetadata(ctx context.Context, v *volume, h *plan.ObservedReplica) error {
	v.replica.attachBackoff.noteTry(time.Now())
	if err := rw.probeBacking(ctx, h); err != nil {
		return err
	}
	if still, err := rw.mustStillRemake(ctx, v); !still || err != nil {
		return err
	}
	rw.withdrawAttachment(v)
	if err := rw.Replicator.RemakeMetadata(ctx, v.id); err != nil {
		return err
	}
	rw.hitFaultPoint("remake-metadata.made")
	v.replica.attachBackoff.notBefore = time.Time{} // the next attachment is immediate; only its failures back off
	return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) {
		r.ClearDiskFailure()
		r.Reverting, r.ContentReverted = "", false
		r.GivenAttachment = 0 // the kernel has it only after the next attachment
	})
}

// withdrawAttachment gives up an attachment that was committed for the disk as it was: the log would take the
// remade one, which is blank, for a failed disk that was attached as it is. The next is proposed anew.
func (rw *replicaWorker) withdrawAttachment(v *volume) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	v.replica.committedAttachment = attachment{}
}

// mustStillRemake observes again: reading a failing disk may take long, and the peer that it is
// to be copied from may have failed meanwhile.
func (rw *replicaWorker) mustStillRemake(ctx context.Context, v *volume) (bool, error) {
	view, _, err := rw.observer.view(ctx, v)
	if err != nil || view.Have.Replica == nil || view.Desired == nil || view.Desired.Replication == nil || !view.Actionable {
		return false, err
	}
	want, have := rw.replicaInputs(v, view)
	have.AttachDue = true // this is the attempt
	return plan.NextReplicaStep(want, have).Kind == plan.StepRemakeMetadata, nil
}

// noteDetach notes that this process detaches a disk that the kernel still has without failure, and answers the number
// of its attachment; 0: it is none such.
func (s *suspendedWatcher) noteDetach(v *volume, status *executor.ResourceStatus) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := v.recordCopy.Replica
	if r == nil || r.Boot != s.Host.BootID || status.Disk <= plan.DiskFailed {
		return 0
	}
	v.replica.detachedAttachment = r.Attachment
	return r.Attachment
}

// withdrawDetach notes after an error that the disk is still attached, as far as is known: should it go later, it failed.
func (s *suspendedWatcher) withdrawDetach(ctx context.Context, v *volume) {
	status, err := s.observer.resourceStatus(ctx, v)
	if err == nil && status.Disk <= plan.DiskFailed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v.replica.detachedAttachment = 0
}

// forgetDetached forgets a disk that was detached in an attachment of this number or above: of an earlier replica of the
// volume on this host, whose numbers begin again.
func (rw *replicaWorker) forgetDetached(v *volume, attachment uint64) error {
	rw.mu.Lock()
	if v.replica.detachedAttachment >= attachment {
		v.replica.detachedAttachment = 0
	}
	rw.mu.Unlock()
	return rw.detached.Forget(v.id, attachment)
}

// recordDetached has later processes know, too, that the disk did not fail. It is recorded once the kernel has detached
// the disk, as one that fails before that did fail. Without the record it is taken for failed, and copied wholly.
func (s *suspendedWatcher) recordDetached(v *volume, attachment uint64) {
	if err := s.detached.Record(v.id, attachment); err != nil {
		s.logger(v).Warn("a restart will take the disk for one that failed", "error", err)
	}
}
