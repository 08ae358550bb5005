package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// created: the device was made. Only a Creating volume becomes Ready by it (S14),
// and only with the size that was decided. A replicated one is Ready when both hosts
// saw its birth.
func (x observation) created(v *Volume, f *fsmpb.DeviceCreated) (Volume, bool) {
	if !v.creating() && !x.added(v) {
		return *v, false
	}
	if f.GetSizeBytes() != v.Size {
		return x.failing(v, v.operationFor(x.host.Host), &fsmpb.StepFailed{Step: "create", Error: sizeError(f.GetSizeBytes(), v.Size)})
	}
	if x.replica.State == ReplicaPresent && x.replica.Size == v.Size {
		return *v, false // it waits for the other replicas
	}
	x.replica.State, x.replica.Size = ReplicaPresent, v.Size
	now := v.withReplica(x.replica)
	switch {
	case v.Replicated():
		x.state.bear(&now)
		x.state.settle(&now)
	case now.allPresent():
		now.Phase, now.Operation = unpublished, nil
	}
	return now, true
}

// added tells whether the replica is one that a Ready volume is being given.
func (x observation) added(v *Volume) bool {
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

// gone: the device was removed. Only a Deleting volume loses a replica by it, or one
// that gave this replica up, and not before its host ended the publication that was
// revoked (S14, S105).
func (x observation) gone(v *Volume) (Volume, bool) {
	if _, ready := v.Phase.(Ready); ready && x.replica.State == ReplicaLeaving && v.Teardown(x.host.Host) == nil {
		return x.left(v), true
	}
	if _, deleting := v.Phase.(Deleting); !deleting || v.Teardown(x.host.Host) != nil {
		return *v, false
	}
	x.replica.State = ReplicaGone
	return v.withReplica(x.replica), true
}

// left: the device of a replica that was given up is gone. Where it was the last that
// was there, all that had the content were lost before: the volume failed.
func (x observation) left(v *Volume) Volume {
	now := v.withoutReplica(x.host.Host)
	now = now.withoutLeft(x.host.Host)
	if x.state.level2() && len(now.Replicas) == 0 {
		x.replica.State = ReplicaGone
		now = v.withReplica(x.replica)
		now = now.withoutLeft(x.host.Host)
		now.Phase, now.Operation, now.Beside = Failed{Reason: "every host that had its content was lost"}, nil, nil
		now.Condition = Condition{Abnormal: true, Message: "every host that had its content was lost"}
	}
	x.state.settle(&now)
	return now
}

// missing: a Ready volume's device is not there. It is never made again (S14).
func (x observation) missing(v *Volume, f *fsmpb.DeviceMissing) (Volume, bool) {
	if _, ready := v.Phase.(Ready); !ready || x.replica.State != ReplicaPresent {
		return *v, false
	}
	x.replica.State = ReplicaMissing
	now := v.withReplica(x.replica)
	now.Condition = Condition{Abnormal: true, Message: clip("the device is missing on node " + string(x.host.ID) + ": " + f.GetDetail())}
	if x.state.level2() {
		now = now.takenBack(x.state.cluster.Index)
	}
	return now, true
}

// present: a device that was missing is there again, a pool mounted late perhaps.
func (x observation) present(v *Volume) (Volume, bool) {
	if x.replica.State != ReplicaMissing {
		return *v, false
	}
	x.replica.State = ReplicaPresent
	now := v.withReplica(x.replica)
	now.Condition = Condition{}
	return now, true
}

// formatted: mkfs ended, or a clone has its own identity, with the uuid that the state
// chose (S15).
func (x observation) formatted(v *Volume, f *fsmpb.Formatted) (Volume, bool) {
	chosen := v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING || v.Format.Cloned && !v.Format.Epoch.IsZero()
	if !chosen || x.publication(v) == nil ||
		v.Format.FSUUID != f.GetFsUuid() || v.Format.FSType != f.GetFsType() {
		return *v, false
	}
	now := *v
	now.Format = Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: v.Format.FSType, FSUUID: v.Format.FSUUID}
	return now, true
}

// stepFailed: the operation did not get on.
func (x observation) stepFailed(v *Volume, f *fsmpb.StepFailed) (Volume, bool) {
	op := v.Operation
	if x.state.level2() {
		op = v.failedOperation(x.host.Host, f)
	}
	if !op.takes(f) || x.state.ofMaking(f, v.GaveUp()) {
		return *v, false
	}
	return x.failing(v, op, f)
}

// failing counts the attempt; a final failure ends the operation. A volume whose
// making failed is Failed, or removed at once from feature level 2 on; one that could
// not grow has its old size; an obligation stays one, until an operator retries it.
func (x observation) failing(v *Volume, was *Operation, f *fsmpb.StepFailed) (Volume, bool) {
	now, op := *v, was.failed(f)
	if op.State == OpFailed && op.Kind == OpExpand {
		now.shrinkBack()
		if now.growing() { // one host saw it grown: so it did, and the other will see that
			op.State = OpRunning
		}
	}
	now.putOperation(op)
	if op.State != OpFailed {
		return now, true
	}
	_, creating := v.Phase.(Creating)
	switch {
	case creating && x.state.level2():
		return now.givenUp(x.state.epoch(), op.Reason, op.LastError), true
	case creating:
		now.Phase = Failed{Reason: op.LastError, NoSpace: f.GetNoSpace()}
	case x.state.level2() && op.Kind == OpReplicate && x.replica.State == ReplicaPlanned:
		return x.notAdded(&now, op), true
	}
	return now, true
}

// notAdded: the replica that the volume was to be given cannot be made. It is given up at
// once: its host removes what was made of it, and then there is neither a record nor a
// reservation of it (S74). The operation says why until then.
func (x observation) notAdded(v *Volume, op *Operation) Volume {
	now := v.withoutLeg(x.host.Host, x.state.cluster.Index)
	x.replica.State = ReplicaLeaving
	now = now.withReplica(x.replica)
	removal := op.turned(OpReplicate)
	removal.Retries++ // what is said late of the making is not the removal's
	removal.Step, removal.Attempts, removal.Reason, removal.LastError = op.Step, op.Attempts, op.Reason, op.LastError
	now.putOperation(removal)
	return now
}

// copied: how far the making of a volume from its source has come.
func copied(v *Volume, p *fsmpb.Progress) (Volume, bool) {
	now := *v
	op, moved := v.Operation.progress(p)
	now.Operation = op
	return now, moved
}

// condition: what the host says of the volume's health.
func condition(v *Volume, f *fsmpb.Condition) (Volume, bool) {
	now := *v
	now.Condition = Condition{Abnormal: f.GetAbnormal(), Message: clip(f.GetMessage())}
	return now, now.Condition != v.Condition
}
