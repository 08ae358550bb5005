package fsm

// DesiredVolume is the desired state of one host for one volume: the input of the
// executor's decisions. It is read from applied entries only.
type DesiredVolume struct {
	Volume VolumeID
	Pool   PoolID
	Size   int64 // bytes
	Goal   Goal
	Format Format
	// Publication is this host's, nil when nothing may be staged here.
	Publication *Publication
	// Teardown is set while this host must end a revoked publication.
	Teardown *Teardown
	// Sequence is the last of the host's records of this volume that was applied.
	Sequence uint64
	// Operation and Attempt change when an operator retries.
	Operation OperationID
	Attempt   uint32
	// ModifyOperation and ModifyAttempt are those of the operation that puts new limits in
	// force, zero when there is none.
	ModifyOperation OperationID
	ModifyAttempt   uint32
	// ReplicaState is what is recorded of the device: a Ready volume's device is
	// reported missing only when this is ReplicaPresent.
	ReplicaState ReplicaState
	// Source is what the device is made from while Creating.
	Source Source
	// SourceSize is the size in bytes of that source.
	SourceSize int64
	// Limits are in force while it is staged here.
	Limits Limits
	// Replication is set for a replicated volume.
	Replication *DesiredReplica
}

// Goal is the one thing a host may do to a device, by the volume's phase (S14).
type Goal uint8

const (
	// GoalCreate: make the device if it is not there. Only while Creating.
	GoalCreate Goal = iota + 1
	// GoalKeep: it should be there; never make or remove it.
	GoalKeep
	// GoalRemove: remove it. Only while Deleting, for this host id and replica.
	GoalRemove
)

// Change announces that a volume, a snapshot or a node changed. Watchers read the state again.
type Change struct {
	Volume VolumeID // empty: the node's own record, or a snapshot
	// Snapshot and Group are set when a snapshot, or a group of them, changed.
	Snapshot SnapshotID
	Group    GroupSnapshotID
	Node     NodeID // the host whose desired state may differ; empty: none
	// WakeWaiters is set in addition to a node's own record when every caller that waits for
	// a volume or a snapshot should read again, as what it waits for may depend on the node.
	// It stands for all of them, so that a node's change costs the same whatever it holds.
	WakeWaiters bool
}
