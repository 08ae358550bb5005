package fsm

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
