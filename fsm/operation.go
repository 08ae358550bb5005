package fsm

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// OperationKind is what an operation is to achieve.
type OperationKind uint8

const (
	// OpCreate creates a volume's devices.
	OpCreate OperationKind = iota + 1
	// OpDelete removes them.
	OpDelete
	// OpTeardown unstages a volume on a host whose publication was revoked.
	OpTeardown
	// OpSnapshot takes a snapshot, or those of all members of a group.
	OpSnapshot
	// OpExpand expands a volume's devices.
	OpExpand
	// OpModify puts a staged volume's limits in force.
	OpModify
	// OpReplicaChange adds a replica to a replicated volume, or removes one.
	OpReplicaChange
)

// OperationState is where an operation stands.
type OperationState uint8

const (
	// OpRunning: its hosts work on it.
	OpRunning OperationState = iota + 1
	// OpFailed: it ended with LastError; retry starts it again.
	OpFailed
	// OpCancelled: an operator cancelled it.
	OpCancelled
)

// Operation is pending work of hosts, as a record in the state. It is part of the volume,
// snapshot or group that it is about, and is dropped when the work is done; the history
// keeps it.
type Operation struct {
	ID         OperationID
	Kind       OperationKind
	State      OperationState
	Step       string
	Attempts   uint32 // steps that failed since it began or was retried
	Retries    uint32 // how often an operator retried it
	LastError  string
	Reason     Reason // of the last error, where its host named one
	DoneBytes  int64  // bytes copied, as its host last reported
	TotalBytes int64  // bytes to copy
	Started    time.Time
	Deadline   time.Time // when an operator should look; nothing is decided by it
}

func hashOperation(e *encoder, o *Operation) {
	e.bool(o != nil)
	if o == nil {
		return
	}
	e.u64(uint64(o.ID))
	e.u64(uint64(o.Kind))
	e.u64(uint64(o.State))
	e.str(o.Step)
	e.u64(uint64(o.Attempts))
	e.u64(uint64(o.Retries))
	e.str(o.LastError)
	e.u64(uint64(o.Reason))
	e.i64(o.DoneBytes)
	e.i64(o.TotalBytes)
	e.i64(nanosOf(o.Started))
	e.i64(nanosOf(o.Deadline))
}

func operationRecord(o *Operation) *fsmpb.OperationRecord {
	if o == nil {
		return nil
	}
	return &fsmpb.OperationRecord{
		Id: uint64(o.ID), Kind: uint32(o.Kind), State: uint32(o.State), Step: o.Step, Attempts: o.Attempts, Retries: o.Retries,
		LastError: o.LastError, Started: nanosOf(o.Started), Deadline: nanosOf(o.Deadline),
		Reason: uint32(o.Reason), Done: o.DoneBytes, Total: o.TotalBytes,
	}
}

func operationFrom(o *fsmpb.OperationRecord, err *error) *Operation {
	if o == nil {
		return nil
	}
	return &Operation{
		ID: OperationID(o.GetId()), Kind: OperationKind(enumFrom(o.GetKind(), uint32(OpReplicaChange), err)), State: OperationState(enumFrom(o.GetState(), uint32(OpCancelled), err)), Step: o.GetStep(),
		Attempts: o.GetAttempts(), Retries: o.GetRetries(), LastError: o.GetLastError(),
		Started: TimeOf(o.GetStarted()), Deadline: TimeOf(o.GetDeadline()),
		Reason: Reason(o.GetReason()), DoneBytes: o.GetDone(), TotalBytes: o.GetTotal(),
	}
}
