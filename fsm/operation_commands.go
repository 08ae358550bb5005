package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// operation is a new operation that begins at this entry.
func (m Meta) operation(kind OperationKind) *Operation {
	return &Operation{ID: OperationID(m.Index), Kind: kind, State: OpRunning, Started: m.Now, Deadline: m.Now.Add(operationDeadline)}
}

// idOrNew is the operation's id, or a new one's where there is none. A failed volume
// keeps its operation's id when its removal begins, so that no two operations begin at
// one index.
func (o *Operation) idOrNew(m Meta) OperationID {
	if o == nil {
		return OperationID(m.Index)
	}
	return o.ID
}

// applyCancelOperation stops the create of a volume, which is then Failed: the next create of
// its name, or its delete, makes its hosts remove what they have of it. Removals and
// teardowns must be done and cannot be cancelled (S105).
func applyCancelOperation(s *State, m Meta, c *fsmpb.CancelOperation) (*fsmpb.Outcome, *Rejection) {
	id := OperationID(c.GetOperationId())
	if n, ok := s.SnapshotOperation(id); ok {
		return s.cancelSnapshot(n)
	}
	if g, ok := s.GroupOperation(id); ok {
		return s.cancelGroup(g)
	}
	v, ok := s.Operation(id)
	if !ok {
		return nil, Reject(NotFound, "operation %s is not known", id)
	}
	op := *v.findOperation(func(o *Operation) bool { return o.ID == id })
	switch {
	case op.Kind == OpReplicaChange && v.ConversionInDoubt():
		return nil, v.checkConversionKnown("undo the conversion of")
	case op.Kind == OpReplicaChange && v.converting() != nil:
		s.undoConversions(m, v, cancelled)
		return operationOutcome(v), nil
	case s.level2() && op.Kind == OpDelete && op.LastError == cancelled:
		return operationOutcome(v), nil
	case op.Kind != OpCreate:
		return nil, Reject(Precondition, "operation %s of volume %s is an obligation and cannot be cancelled", op.ID, v.ID)
	case op.State == OpCancelled:
		return operationOutcome(v), nil
	case op.State == OpFailed:
		return nil, Reject(Precondition, "operation %s of volume %s failed already", op.ID, v.ID)
	}
	if s.level2() {
		updated := v.asFailedCreate(s.epoch(), Busy, cancelled)
		s.putVolume(updated)
		return operationOutcome(&updated), nil
	}
	updated := *v
	op.State = OpCancelled
	updated.Operation, updated.Phase = &op, Failed{Reason: cancelled}
	s.putVolume(updated)
	return operationOutcome(v), nil
}

// applyRetryOperation begins the operation again.
func applyRetryOperation(s *State, m Meta, c *fsmpb.RetryOperation) (*fsmpb.Outcome, *Rejection) {
	id := OperationID(c.GetOperationId())
	if n, ok := s.SnapshotOperation(id); ok {
		return s.retrySnapshot(m, n)
	}
	if g, ok := s.GroupOperation(id); ok {
		return s.retryGroup(m, g)
	}
	v, ok := s.Operation(id)
	if !ok {
		return nil, Reject(NotFound, "operation %s is not known", id)
	}
	op := v.findOperation(func(o *Operation) bool { return o.ID == id })
	if rej := s.checkRetry(v, op); rej != nil {
		return nil, rej
	}
	updated := *v
	updated.putOperation(op.retried(m))
	if op.Kind == OpCreate {
		updated.Phase = Creating{}
	}
	s.putVolume(updated)
	return &fsmpb.Outcome{VolumeId: string(v.ID), OperationId: uint64(id)}, nil
}

// checkRetry: a volume is created again only if its source still exists, and one that could
// not be expanded has its old size again.
func (s *State) checkRetry(v *Volume, op *Operation) *Rejection {
	switch {
	case op.Kind == OpCreate && v.Replicated() && len(v.ActiveReplicas()) < int(v.Replication.ReplicaCount):
		return Reject(Precondition, "volume %s lost a host while it was made: delete it and create it again", v.ID)
	case op.Kind == OpCreate && !v.Source.IsZero():
		from, rej := s.originOf(v.Source)
		if rej == nil && s.level2() && v.isFailed() && !s.canBeMadeFrom(v, &from) {
			return Reject(Precondition, "volume %s cannot be made of its source any more, which is larger now or kept by another host: delete it and create it again", v.ID)
		}
		return rej
	case op.Kind == OpExpand && op.State == OpFailed:
		return Reject(Precondition, "volume %s could not grow and has %d bytes: expand it again", v.ID, v.Size)
	}
	return nil
}

func operationOutcome(v *Volume) *fsmpb.Outcome {
	out := &fsmpb.Outcome{VolumeId: string(v.ID)}
	if v.Operation != nil {
		out.OperationId = uint64(v.Operation.ID)
	}
	return out
}

// withFailure is the operation after a step that failed; a final failure ends it.
func (o *Operation) withFailure(f *fsmpb.StepFailed) *Operation {
	op := *o
	op.Attempts++
	op.Step, op.LastError, op.Reason = clip(f.GetStep()), clip(f.GetError()), failureReason(f)
	if f.GetFinal() {
		op.State = OpFailed
	}
	return &op
}

// accepts tells whether a failure counts: it is of this operation and attempt, or names none,
// and the operation is running.
func (o *Operation) accepts(f *fsmpb.StepFailed) bool {
	return o != nil && o.State == OpRunning && o.isAbout(f)
}

// isAbout tells whether a failure is of this operation and attempt; one that names none is.
func (o *Operation) isAbout(f *fsmpb.StepFailed) bool {
	return f.GetOperationId() == 0 || OperationID(f.GetOperationId()) == o.ID && f.GetAttempt() == o.Retries
}

// ref is how a failure names the operation; zero where there is none.
func (o *Operation) ref() (OperationID, uint32) {
	if o == nil {
		return 0, 0
	}
	return o.ID, o.Retries
}

// failureReason is why a step failed, as its host reported; zero when it names no reason.
func failureReason(f *fsmpb.StepFailed) Reason {
	if f.GetNoSpace() {
		return NoCapacity
	}
	if r := Reason(f.GetReason()); r <= Unreachable {
		return r
	}
	return 0
}

// withProgress is the operation with what its host copied so far, and whether that is news.
func (o *Operation) withProgress(p *fsmpb.Progress) (*Operation, bool) {
	if o == nil || o.State != OpRunning || p.GetDoneBytes() < 0 || p.GetTotalBytes() < p.GetDoneBytes() {
		return o, false
	}
	op := *o
	op.DoneBytes, op.TotalBytes = p.GetDoneBytes(), p.GetTotalBytes()
	return &op, op != *o
}

// retried is the operation, begun again.
func (o *Operation) retried(m Meta) *Operation {
	op := *o
	op.State, op.Step, op.LastError, op.Attempts, op.Reason, op.DoneBytes, op.TotalBytes = OpRunning, "", "", 0, 0, 0, 0
	op.Retries++
	op.Deadline = m.Now.Add(operationDeadline)
	return &op
}

// withKind is the operation as one of another kind. It keeps its id, so that no two
// operations begin at one index.
func (o *Operation) withKind(kind OperationKind) *Operation {
	return &Operation{ID: o.ID, Kind: kind, State: OpRunning, Retries: o.Retries, Started: o.Started, Deadline: o.Deadline}
}
