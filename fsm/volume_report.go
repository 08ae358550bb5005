package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// deviceCreated: the device was made. Only a Creating volume becomes Ready by it (S14),
// and only with the size that was decided. A replicated one is Ready when both hosts
// reported the initial sync.
func (x reportContext) deviceCreated(v *Volume, f *fsmpb.DeviceCreated) (Volume, bool) {
	if !v.isCreating() && !x.isBeingAdded(v) {
		return *v, false
	}
	if f.GetSizeBytes() != v.Size {
		return x.withFailedStep(v, v.operationFor(x.host.Host), &fsmpb.StepFailed{Step: "create", Error: sizeError(f.GetSizeBytes(), v.Size)})
	}
	if x.replica.State == ReplicaPresent && x.replica.Size == v.Size {
		return *v, false // it waits for the other replicas
	}
	x.replica.State, x.replica.Size = ReplicaPresent, v.Size
	updated := v.withReplica(x.replica)
	switch {
	case v.Replicated():
		x.state.completeInitialSync(&updated)
		x.state.advanceConversion(&updated)
		x.state.finishOperations(&updated)
	case updated.allPresent():
		updated.Phase, updated.Operation = unpublished, nil
	}
	return updated, true
}

// isBeingAdded tells whether the replica is being added to a Ready volume.
func (x reportContext) isBeingAdded(v *Volume) bool {
	_, ready := v.Phase.(Ready)
	return ready && v.Operation != nil && x.replica.State == ReplicaPlanned
}

func sizeError(got, want int64) string {
	return Reject(Invalid, "the device has %d bytes, not %d", got, want).Message
}

func (v *Volume) allPresent() bool {
	for i := range v.Replicas {
		if v.Replicas[i].State != ReplicaPresent {
			return false
		}
	}
	return true
}

// deviceGone: the device was removed. It counts only for a volume that is Deleting or a replica
// that is Leaving, and not before the host ended its revoked publication (S14, S105).
func (x reportContext) deviceGone(v *Volume) (Volume, bool) {
	if _, ready := v.Phase.(Ready); ready && x.replica.State == ReplicaLeaving && v.Teardown(x.host.Host) == nil {
		return x.leavingReplicaGone(v), true
	}
	if _, deleting := v.Phase.(Deleting); !deleting || v.Teardown(x.host.Host) != nil {
		return *v, false
	}
	x.replica.State = ReplicaGone
	return v.withReplica(x.replica), true
}

// leavingReplicaGone: the device of a leaving replica is gone. If it was the last one present,
// all replicas that had the content were lost before: the volume failed.
func (x reportContext) leavingReplicaGone(v *Volume) Volume {
	updated := v.withoutReplica(x.host.Host)
	updated = updated.withoutLeaving(x.host.Host)
	updated = updated.withoutUnconverted()
	if x.state.level2() && len(updated.Replicas) == 0 {
		x.replica.State = ReplicaGone
		updated = v.withReplica(x.replica)
		updated = updated.withoutLeaving(x.host.Host)
		updated.fail("every host that had its content was lost")
	}
	x.state.finishOperations(&updated)
	return updated
}

// deviceMissing: a Ready volume's device is not there. It is never made again (S14).
func (x reportContext) deviceMissing(v *Volume, f *fsmpb.DeviceMissing) (Volume, bool) {
	if _, ready := v.Phase.(Ready); !ready || x.replica.State != ReplicaPresent {
		return *v, false
	}
	x.replica.State = ReplicaMissing
	updated := v.withReplica(x.replica)
	updated.Condition = Condition{Abnormal: true, Message: clip("the device is missing on node " + string(x.host.ID) + ": " + f.GetDetail())}
	if x.state.level2() {
		updated = x.state.withLeavingRestored(&updated, x.state.cluster.Index)
	}
	return updated, true
}

// devicePresent: a device that was missing is there again, a pool mounted late perhaps.
func (x reportContext) devicePresent(v *Volume) (Volume, bool) {
	if x.replica.State != ReplicaMissing {
		return *v, false
	}
	x.replica.State = ReplicaPresent
	updated := v.withReplica(x.replica)
	updated.Condition = Condition{}
	return updated, true
}

// formatted: mkfs ended, or a clone has its own identity, with the uuid that the state
// chose (S15).
func (x reportContext) formatted(v *Volume, f *fsmpb.Formatted) (Volume, bool) {
	chosen := v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING || v.Format.Cloned && !v.Format.Epoch.IsZero()
	if !chosen || x.publication(v) == nil ||
		v.Format.FSUUID != f.GetFsUuid() || v.Format.FSType != f.GetFsType() {
		return *v, false
	}
	updated := *v
	updated.Format = Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: v.Format.FSType, FSUUID: v.Format.FSUUID}
	return updated, true
}

// stepFailed: a step of the operation failed on the host.
func (x reportContext) stepFailed(v *Volume, f *fsmpb.StepFailed) (Volume, bool) {
	op := v.Operation
	if x.state.level2() {
		op = v.failedOperation(x.host.Host, f)
	}
	if !op.accepts(f) || x.state.isStaleCreateFailure(f, v.CreateFailure()) {
		return *v, false
	}
	return x.withFailedStep(v, op, f)
}

// withFailedStep counts the attempt; a final failure ends the operation. A volume that could
// not be created is Failed, or removed at once from feature level 2 on; one that could not be
// expanded has its old size; a pending teardown or removal stays pending until an operator
// retries it.
func (x reportContext) withFailedStep(v *Volume, operation *Operation, f *fsmpb.StepFailed) (Volume, bool) {
	updated, op := *v, operation.withFailure(f)
	if op.State == OpFailed && op.Kind == OpExpand {
		updated.revertSize()
		if updated.isExpanding() { // one host reported the size: it was expanded, and the other will report it too
			op.State = OpRunning
		}
	}
	updated.putOperation(op)
	if op.State != OpFailed {
		return updated, true
	}
	_, creating := v.Phase.(Creating)
	switch {
	case creating && x.state.level2():
		return updated.asFailedCreate(x.state.epoch(), op.Reason, op.LastError), true
	case creating:
		updated.Phase = Failed{Reason: op.LastError, NoSpace: f.GetNoSpace()}
	case x.state.level2() && op.Kind == OpReplicaChange && x.replica.State == ReplicaPlanned:
		return x.replicaNotAdded(&updated, op), true
	}
	return updated, true
}

// replicaNotAdded: the replica that was to be added cannot be made. It is removed at once: its
// host removes what was made of it, and then there is neither a record nor a reservation of
// it (S74). The operation has the reason until then.
func (x reportContext) replicaNotAdded(v *Volume, op *Operation) Volume {
	updated := v.withoutReplicaSync(x.host.Host, x.state.cluster.Index)
	x.replica.State = ReplicaLeaving
	updated = updated.withReplica(x.replica)
	removal := op.withKind(OpReplicaChange)
	removal.Retries++ // late reports about the creation do not count for the removal
	removal.Step, removal.Attempts, removal.Reason, removal.LastError = op.Step, op.Attempts, op.Reason, op.LastError
	updated.putOperation(removal)
	return updated
}

// copyProgress: how much of a volume has been copied from its source.
func copyProgress(v *Volume, p *fsmpb.Progress) (Volume, bool) {
	updated := *v
	op, changed := v.Operation.withProgress(p)
	updated.Operation = op
	return updated, changed
}

// conditionReported: the host reported the volume's health.
func conditionReported(v *Volume, f *fsmpb.Condition) (Volume, bool) {
	updated := *v
	updated.Condition = Condition{Abnormal: f.GetAbnormal(), Message: clip(f.GetMessage())}
	return updated, updated.Condition != v.Condition
}
