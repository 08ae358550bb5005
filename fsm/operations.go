package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

// operation begins one at this entry.
func (m Meta) operation(kind OperationKind) *Operation {
	return &Operation{ID: OperationID(m.Index), Kind: kind, State: OpRunning, Started: m.Now, Deadline: m.Now.Add(operationPatience)}
}

// id is the operation's, or a new one's where there is none. A failed volume keeps
// its operation's id when it turns into an obligation, so that no two operations
// begin at one index.
func (o *Operation) id(m Meta) OperationID {
	if o == nil {
		return OperationID(m.Index)
	}
	return o.ID
}

// applyCancelOperation gives up making a volume. It is then Failed: the next create
// of its name, or its delete, turns what was made into an obligation. What removes
// or ends something is owed and cannot be cancelled (I5).
func applyCancelOperation(s *State, _ Meta, c *fsmpb.CancelOperation) (*fsmpb.Outcome, *Rejection) {
	v, ok := s.Operation(OperationID(c.GetOperationId()))
	if !ok {
		return nil, Reject(NotFound, "operation %s is not known", OperationID(c.GetOperationId()))
	}
	op := *v.Operation
	switch {
	case op.Kind != OpCreate:
		return nil, Reject(Precondition, "operation %s of volume %s is an obligation and cannot be cancelled", op.ID, v.ID)
	case op.State == OpCancelled:
		return operating(v), nil
	case op.State == OpFailed:
		return nil, Reject(Precondition, "operation %s of volume %s failed already", op.ID, v.ID)
	}
	now := *v
	op.State = OpCancelled
	now.Operation, now.Phase = &op, Failed{Reason: "cancelled by an operator"}
	s.putVolume(now)
	return operating(v), nil
}

// applyRetryOperation asks the host again, from the beginning.
func applyRetryOperation(s *State, m Meta, c *fsmpb.RetryOperation) (*fsmpb.Outcome, *Rejection) {
	v, ok := s.Operation(OperationID(c.GetOperationId()))
	if !ok {
		return nil, Reject(NotFound, "operation %s is not known", OperationID(c.GetOperationId()))
	}
	op := *v.Operation
	op.State, op.Step, op.LastError, op.Attempts = OpRunning, "", "", 0
	op.Retries++
	op.Deadline = m.Now.Add(operationPatience)
	now := *v
	now.Operation = &op
	if op.Kind == OpCreate {
		now.Phase = Creating{}
	}
	s.putVolume(now)
	return operating(v), nil
}

func operating(v *Volume) *fsmpb.Outcome {
	return &fsmpb.Outcome{VolumeId: string(v.ID), OperationId: uint64(v.Operation.ID)}
}
