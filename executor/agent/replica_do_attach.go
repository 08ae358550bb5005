package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// proposeAttach has the next attachment committed: from then on the replica does not count as up
// to date until it was connected to its peer (S5). The number is recorded on disk before.
func (rw *replicaWorker) proposeAttach(ctx context.Context, v *volume, want *plan.ReplicaSpec, h *plan.ObservedReplica) error {
	session, err := rw.actingSession()
	if err != nil {
		return err
	}
	next := want.Attachment + 1
	if r := v.record.Replica; r != nil {
		next = max(next, r.Attachment+1)
	}
	if err := rw.forgetDetached(v, next); err != nil {
		return err
	}
	err = rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) {
		r.Attachment, r.Boot, r.RevertedTo = next, rw.Host.BootID, ""
		r.CopyAsked, r.KeptCopies = false, 0
	})
	if err != nil {
		return err
	}
	if err := rw.commitAttachment(ctx, v, session, h.JustCreated); err != nil {
		return err
	}
	rw.mu.Lock()
	defer rw.mu.Unlock()
	v.replica.committedAttachment = v.replica.loggedAttachment
	return nil
}

// recommitAttachment commits the attachment that the kernel has to a log that was restored to before it: nothing that is
// observed of the disk would count otherwise (S5). A disk that failed before that, and was made anew since, was attached blank.
func (rw *replicaWorker) recommitAttachment(ctx context.Context, v *volume, want *plan.ReplicaSpec) error {
	session, err := rw.actingSession()
	if err != nil {
		return err
	}
	remade := want.DiskFailed != 0 && v.record.Replica.RemadeAttachment >= want.DiskFailed
	return rw.commitAttachment(ctx, v, session, remade)
}

// commitAttachment has the record's attachment committed: the replica does not count as up to date from then on.
func (rw *replicaWorker) commitAttachment(ctx context.Context, v *volume, session uint64, blank bool) error {
	number := v.record.Replica.Attachment
	outcome, err := rw.proposer.propose(ctx, nil, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
		VolumeId: string(v.id), NodeId: string(rw.Node), HostId: string(rw.Host.ID), BootId: rw.Host.BootID, Attach: number, Blank: blank && rw.atLevel2(),
	}}})
	if err != nil {
		return err
	}
	rw.mu.Lock()
	defer rw.mu.Unlock()
	v.replica.loggedAttachment = attachment{number, session}
	v.replica.generation = max(v.replica.generation, outcome.GetGeneration())
	return nil
}

// attachDisk uses a committed attachment, once. A backing device that cannot be read is not
// attached: it would only fail again.
func (rw *replicaWorker) attachDisk(ctx context.Context, v *volume, h *plan.ObservedReplica) error {
	rw.mu.Lock()
	committed := v.replica.committedAttachment
	v.replica.committedAttachment = attachment{}
	current := rw.session.number == committed.session
	rw.mu.Unlock()
	if !current {
		return errSessionChanged
	}
	v.replica.attachBackoff.noteTry(time.Now())
	if err := rw.probeBacking(ctx, h); err != nil {
		return err
	}
	if err := rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.GivenAttachment = r.Attachment }); err != nil {
		return err
	}
	rw.hitFaultPoint("attach-disk.recorded")
	err := errSessionChanged // it may have ended while the disk was read
	if rw.sessionHolds(committed.session) && !rw.lostMeanwhile(v, h) {
		err = rw.Replicator.Attach(ctx, v.id)
	}
	v.replica.adjusted = err == nil // the kernel has just read the file
	if err != nil {
		return errors.Join(err, rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.GivenAttachment = 0 }))
	}
	return nil
}

// lostMeanwhile: a verdict came after the step was chosen, so that what the primary's writers wait for is to fail (S9).
func (rw *replicaWorker) lostMeanwhile(v *volume, h *plan.ObservedReplica) bool {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	return h.Primary && v.isOutdated()
}

func (rw *replicaWorker) probeBacking(ctx context.Context, h *plan.ObservedReplica) error {
	if !h.InKernel {
		return nil
	}
	if _, err := rw.Mounter.Probe(ctx, h.Backing.Path, h.Backing.Size); err != nil {
		return fmt.Errorf("read the backing device again: %w", err)
	}
	return nil
}
