package fsm

import "iter"

// DesiredSnapshot is the desired state of one host for one snapshot.
type DesiredSnapshot struct {
	Snapshot SnapshotID
	Source   VolumeID
	Pool     PoolID
	Size     int64 // bytes; of the source when the snapshot was decided
	Goal     SnapshotGoal
	Group    GroupSnapshotID
	Attempt  uint32 // of the group, or of the operation's retries
	Sequence uint64
	// Frozen, in a group: this host reported this attempt's freeze.
	Frozen bool
	// Operation is the snapshot's or its group's; Retry changes when an operator retries it.
	Operation OperationID
	Retry     uint32
	// Encrypted: its source was, so that there is a LUKS header before Size bytes.
	Encrypted bool
	// Manifest is a SnapshotManifest, which the host keeps as it is beside the image; empty below feature level 3, of a
	// host in adoption mode, and of a snapshot that is not Ready (S1).
	Manifest string
}

// SnapshotGoal is the one thing a host may do for a snapshot.
type SnapshotGoal uint8

const (
	// SnapshotGoalTake: take it; when it is in no group, freeze before and thaw after.
	SnapshotGoalTake SnapshotGoal = iota + 1
	// SnapshotGoalFreeze: freeze the source for a group's attempt, and report.
	SnapshotGoalFreeze
	// SnapshotGoalKeep: it should be there; thaw what was frozen for it.
	SnapshotGoalKeep
	// SnapshotGoalThaw: the group was aborted: thaw, remove what was taken, and report
	// SnapshotGone with this attempt.
	SnapshotGoalThaw
	// SnapshotGoalRemove: thaw what was frozen for it, remove it, and report SnapshotGone.
	SnapshotGoalRemove
)

// DesiredSnapshot is the desired state of a host for a snapshot; false when there is none.
func (s *State) DesiredSnapshot(node NodeID, id SnapshotID) (DesiredSnapshot, bool) {
	host, ok := s.Node(node)
	if !ok || host.State == NodeLost {
		return DesiredSnapshot{}, false
	}
	n, ok := s.Snapshot(id)
	if !ok {
		return DesiredSnapshot{}, false
	}
	return s.desiredSnapshot(host, n)
}

// DesiredSnapshots yields a host's desired state of all snapshots, in order of id.
func (s *State) DesiredSnapshots(node NodeID) iter.Seq[DesiredSnapshot] {
	return func(yield func(DesiredSnapshot) bool) {
		host, ok := s.Node(node)
		if !ok || host.State == NodeLost {
			return
		}
		for n := range s.SnapshotsOn(node) {
			if d, ok := s.desiredSnapshot(host, n); ok && !yield(d) {
				return
			}
		}
	}
}

// desiredSnapshot is addressed to the host, not to its name (S17). A kept copy is taken by the
// host as a part of discarding the replica: it has a desired state only once it is there.
func (s *State) desiredSnapshot(host *Node, n *Snapshot) (DesiredSnapshot, bool) {
	if n.Host != host.Host || n.Gone || n.KeptCopy != nil && n.Phase == SnapshotTaking {
		return DesiredSnapshot{}, false
	}
	d := DesiredSnapshot{
		Snapshot: n.ID, Source: n.Source, Pool: n.Pool, Size: n.Size, Goal: s.snapshotGoal(host, n),
		Group: n.Group, Sequence: n.Sequence, Frozen: n.Frozen,
		Encrypted: n.Crypt != nil, Manifest: s.snapshotManifest(host, n),
	}
	if g, ok := s.GroupSnapshot(n.Group); ok {
		d.Attempt = g.Attempt
		d.Operation, d.Retry = g.Operation.ref()
	} else if n.Operation != nil {
		d.Attempt = n.Operation.Retries
		d.Operation, d.Retry = n.Operation.ref()
	}
	return d, true
}

// snapshotGoal is what may be done: a snapshot is taken only while Taking, and removed only
// while Deleting or when its group was aborted (S14); neither is desired of a host in
// adoption mode (S1).
func (s *State) snapshotGoal(host *Node, n *Snapshot) SnapshotGoal {
	if host.Incarnation != s.cluster.Incarnation {
		return SnapshotGoalKeep
	}
	g, inGroup := s.GroupSnapshot(n.Group)
	switch {
	case n.Phase == SnapshotDeleting:
		return SnapshotGoalRemove
	case inGroup && g.Phase == GroupAborting:
		return SnapshotGoalThaw
	case n.Phase != SnapshotTaking || !n.TakenAt.IsZero():
		return SnapshotGoalKeep
	case inGroup && g.Phase == GroupFreezing:
		return SnapshotGoalFreeze
	}
	return SnapshotGoalTake
}
