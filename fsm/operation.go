package fsm

import "time"

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
