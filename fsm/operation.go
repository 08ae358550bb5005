package fsm

import "time"

// OperationKind names what an operation brings about.
type OperationKind uint8

const (
	// OpCreate makes a volume's devices.
	OpCreate OperationKind = iota + 1
	// OpDelete removes them.
	OpDelete
	// OpTeardown ends a revoked publication on its host.
	OpTeardown
	// OpSnapshot cuts a snapshot, or all members of a group.
	OpSnapshot
	// OpExpand makes a volume's devices larger.
	OpExpand
	// OpModify puts a staged volume's limits in force.
	OpModify
	// OpReplicaChange gives a replicated volume another replica, or takes one away.
	OpReplicaChange
)

// OperationState is where an operation stands.
type OperationState uint8

const (
	// OpRunning: its host is asked to work on it.
	OpRunning OperationState = iota + 1
	// OpFailed: it ended with LastError; retry starts it again.
	OpFailed
	// OpCancelled: an operator cancelled it.
	OpCancelled
)

// Operation is work that hosts owe, as a record in the state. It lives in the
// volume, snapshot or group it is about and goes when the work is done; history
// remembers it.
type Operation struct {
	ID         OperationID
	Kind       OperationKind
	State      OperationState
	Step       string
	Attempts   uint32 // steps that failed since it began or was retried
	Retries    uint32 // how often an operator retried it
	LastError  string
	Reason     Reason // of the last error, where its host named one
	DoneBytes  int64  // bytes copied, as its host last said
	TotalBytes int64  // bytes to copy
	Started    time.Time
	Deadline   time.Time // when an operator should look; nothing is decided by it
}
