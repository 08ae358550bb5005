package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// From feature level 2 on a volume may have one operation of each kind at once, where their
// steps do not conflict: pending work of an unreachable host blocks no other. Operation is
// the first of them by kind, OtherOperations has the others.

// Operations are all that the volume has, in order of their kinds.
func (v *Volume) Operations() []Operation {
	if v.Operation == nil {
		return nil
	}
	return append([]Operation{*v.Operation}, v.OtherOperations...)
}

// OperationOf is the volume's operation of a kind, nil when there is none.
func (v *Volume) OperationOf(kind OperationKind) *Operation {
	return v.findOperation(func(o *Operation) bool { return o.Kind == kind })
}

func (v *Volume) findOperation(matches func(*Operation) bool) *Operation {
	if v.Operation != nil && matches(v.Operation) {
		return v.Operation
	}
	for i := range v.OtherOperations {
		if matches(&v.OtherOperations[i]) {
			return &v.OtherOperations[i]
		}
	}
	return nil
}

// running is the operation of a kind while it is OpRunning, else nil.
func (v *Volume) running(kind OperationKind) *Operation {
	return v.findOperation(func(o *Operation) bool { return o.Kind == kind && o.State == OpRunning })
}

// putOperation adds the operation, and replaces the one of its kind.
func (v *Volume) putOperation(op *Operation) {
	others := slices.DeleteFunc(v.Operations(), func(o Operation) bool { return o.Kind == op.Kind })
	v.setOperations(append(others, *op))
}

// endOperation drops the operation of a kind.
func (v *Volume) endOperation(kind OperationKind) {
	if v.OperationOf(kind) != nil {
		v.setOperations(slices.DeleteFunc(v.Operations(), func(o Operation) bool { return o.Kind == kind }))
	}
}

func (v *Volume) setOperations(all []Operation) {
	slices.SortFunc(all, func(a, b Operation) int { return cmp.Compare(a.Kind, b.Kind) })
	v.Operation, v.OtherOperations = nil, nil
	if len(all) > 0 {
		v.Operation = &all[0]
	}
	if len(all) > 1 {
		v.OtherOperations = all[1:]
	}
}

// beginOperation begins an operation of the volume at this entry. At level 1 it replaces the
// one that the volume has.
func (s *State) beginOperation(v *Volume, op *Operation) {
	if s.level2() {
		v.putOperation(op)
		return
	}
	v.Operation = op
}

// operationOutcomeOf answers with the volume's operation of a kind.
func (s *State) operationOutcomeOf(v *Volume, kind OperationKind) *fsmpb.Outcome {
	if !s.level2() {
		return operationOutcome(v)
	}
	out := &fsmpb.Outcome{VolumeId: string(v.ID)}
	if op := v.OperationOf(kind); op != nil {
		out.OperationId = uint64(op.ID)
	}
	return out
}

// failedOperation is the operation that a failure on this host belongs to: the one that it
// names, or else the first. A teardown fails only on the host on which it is pending.
func (v *Volume) failedOperation(host HostID, f *fsmpb.StepFailed) *Operation {
	op := v.Operation
	if f.GetOperationId() != 0 {
		op = v.findOperation(func(o *Operation) bool { return o.ID == OperationID(f.GetOperationId()) })
	}
	if op != nil && op.Kind == OpTeardown && v.Teardown(host) == nil {
		return nil
	}
	return op
}

// operationFor is the operation that a host works on: a teardown that is pending on it comes
// before those of all hosts.
func (v *Volume) operationFor(host HostID) *Operation {
	r := v.Replica(host)
	if len(v.OtherOperations) == 0 || r == nil {
		return v.Operation
	}
	for _, work := range []struct {
		kind OperationKind
		is   bool
	}{
		{OpTeardown, v.Teardown(host) != nil},
		{OpReplicaChange, r.State == ReplicaLeaving || r.State == ReplicaPlanned},
		{OpExpand, r.Size < v.Size},
		{OpModify, v.Publication(r.Node) != nil && r.Limits != v.Limits},
		{OpReplicaChange, true},
	} {
		if op := v.OperationOf(work.kind); work.is && op != nil {
			return op
		}
	}
	return v.Operation
}
