package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/executor/records"
)

func (rw *replicaWorker) performReplicaStep(ctx context.Context, v *volume, view *plan.VolumeView, kind plan.StepKind, want *plan.ReplicaSpec, h *plan.ObservedReplica) error {
	switch kind {
	case plan.StepActivateBacking, plan.StepDeactivateBacking:
		return rw.switchBacking(ctx, v, kind)
	case plan.StepConfigure:
		return rw.configure(ctx, v, want, h)
	case plan.StepAdjust:
		err := rw.Replicator.Adjust(ctx, v.id)
		v.replica.adjusted = err == nil
		return err
	case plan.StepCreateMetadata:
		return rw.createMetadata(ctx, v, want)
	case plan.StepRemakeMetadata:
		return rw.remakeMetadata(ctx, v, h)
	case plan.StepProposeAttach:
		return rw.proposeAttach(ctx, v, want, h)
	case plan.StepRecommitAttachment:
		return rw.recommitAttachment(ctx, v, want)
	case plan.StepAttachDisk:
		return rw.attachDisk(ctx, v, h)
	case plan.StepDetachDisk:
		return rw.detachIfDue(ctx, v, want, h)
	case plan.StepConnect, plan.StepConnectDiscard:
		return rw.connect(ctx, v, kind == plan.StepConnectDiscard)
	case plan.StepSetPrimary:
		return rw.promote(ctx, v, nil, view.Desired.Publication.Epoch)
	case plan.StepResumeIO:
		return rw.suspended.failSuspendedIO(ctx, v, &h.ResourceStatus)
	case plan.StepTearDownVictim:
		return rw.tearDownVictim(ctx, v, h)
	case plan.StepKeepVictim:
		return rw.victims.keepVictim(ctx, v)
	case plan.StepKeepBeforeSync:
		err := rw.victims.keepBeforeSync(ctx, v, want.DiscardUnkept)
		if err == nil {
			v.replica.noteKeepAnswered(view.Desired, time.Now())
		}
		return err
	case plan.StepRemoveConfig:
		return rw.removeConfig(ctx, v)
	case plan.StepForgetReplicaRecord:
		v.record.Replica = nil
		return rw.records.saveRecord(v, true)
	case plan.StepNoteInSync:
		return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.MayHaveWrites, r.CopyKept = false, false })
	case plan.StepVerify:
		return rw.verifyReplica(ctx, v)
	}
	return rw.siteStep(ctx, v, kind, want, h)
}

// siteStep does a step of a replica that is replicated between sites.
func (rw *replicaWorker) siteStep(ctx context.Context, v *volume, kind plan.StepKind, want *plan.ReplicaSpec, h *plan.ObservedReplica) error {
	switch kind {
	case plan.StepBeginConversion:
		return rw.beginConversion(v, want, h)
	case plan.StepExtendBacking:
		return rw.extendBacking(ctx, v, want)
	case plan.StepShrinkBacking:
		return rw.shrinkBacking(ctx, v, h)
	case plan.StepNoteApart:
		return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.MayHaveWrites, r.CopyKept = true, false })
	case plan.StepRevertBacking:
		return rw.revertBacking(ctx, v, want)
	case plan.StepRemakeReverted:
		return rw.remakeReverted(ctx, v)
	}
	return rw.kernelStep(ctx, v, kind, want)
}

// kernelStep does a step that is one call of the Replicator.
func (rw *replicaWorker) kernelStep(ctx context.Context, v *volume, kind plan.StepKind, want *plan.ReplicaSpec) error {
	switch kind {
	case plan.StepDisconnect:
		v.replica.discarding = false
		return rw.Replicator.Disconnect(ctx, v.id)
	case plan.StepNewUUID:
		return rw.Replicator.NewUUID(ctx, v.id)
	case plan.StepInvalidate:
		return rw.Replicator.Invalidate(ctx, v.id)
	case plan.StepResize:
		return rw.Replicator.Resize(ctx, v.id, want.Size+rw.headerBytesOf(v), want.IsOnly())
	case plan.StepDownResource:
		v.replica.adjusted, v.replica.discarding = false, false
		return rw.Replicator.Down(ctx, v.id)
	}
	return fmt.Errorf("there is no step %q", kind)
}

// connect begins to connect, and records the attachment before: after a connection in this
// attachment a resynchronisation's blocks are not in doubt any more.
func (rw *replicaWorker) connect(ctx context.Context, v *volume, discard bool) error {
	if r := v.record.Replica; r != nil && r.ConnectedAttachment != r.Attachment {
		if err := rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.ConnectedAttachment = r.Attachment }); err != nil {
			return err
		}
	}
	v.replica.connectBackoff.noteTry(time.Now())
	v.replica.discarding = discard
	return rw.Replicator.Connect(ctx, v.id, discard)
}

// switchBacking activates or deactivates the backing device.
func (rw *replicaWorker) switchBacking(ctx context.Context, v *volume, kind plan.StepKind) error {
	rb, err := rw.poolSet.replicaBackend(v)
	if err != nil {
		return err
	}
	if kind == plan.StepDeactivateBacking {
		return rb.Backend.Deactivate(ctx, v.id)
	}
	if v.record.Replica == nil { // it is recorded as replicated before anything is active
		if err := rw.records.saveReplicaRecord(v, func(*records.ReplicaRecord) {}); err != nil {
			return err
		}
	}
	_, err = rb.Backend.Activate(ctx, v.id, false)
	return err
}

// createMetadata is a step of creating the replica. A copy of another volume's device has that
// volume's metadata, which must not be taken for this one's.
func (rw *replicaWorker) createMetadata(ctx context.Context, v *volume, want *plan.ReplicaSpec) error {
	if wiper, ok := rw.Replicator.(executor.MetadataWiper); ok && want.FromSource {
		if err := wiper.WipeMetadata(ctx, v.id); err != nil {
			return err
		}
	}
	if err := rw.Replicator.CreateMetadata(ctx, v.id); err != nil {
		return err
	}
	return rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.MetadataMade, r.Verified = true, time.Now() })
}

func (rw *replicaWorker) verifyReplica(ctx context.Context, v *volume) error {
	if err := rw.records.saveReplicaRecord(v, func(r *records.ReplicaRecord) { r.Verified = time.Now() }); err != nil {
		return err
	}
	return rw.Replicator.Verify(ctx, v.id)
}

// removeConfig removes everything of the resource but its backing device.
func (rw *replicaWorker) removeConfig(ctx context.Context, v *volume) error {
	v.replica.config, v.replica.committedAttachment = nil, attachment{}
	return rw.Replicator.RemoveConfig(ctx, v.id)
}

var errPoolCannotKeep = errors.New("its pool cannot take a snapshot, which must keep the replica's content before that is discarded")
