package fsm

import "iter"

// A snapshot is known to callers once it is taken, and so is its group, until it is deleted.

// KnownSnapshot is the snapshot that was returned to a caller; NotFound: one that is being
// taken or deleted, one that failed, or none.
func (s *State) KnownSnapshot(id SnapshotID) (*Snapshot, *Rejection) {
	n, ok := s.Snapshot(id)
	if !ok || !n.isKnown() {
		return nil, UnknownSnapshot(id)
	}
	return n, nil
}

func (n *Snapshot) isKnown() bool { return n.Phase == SnapshotReady }

// KnownSnapshots yields the snapshots with an id above after, in order: those of a source, or
// of all when it is empty. Kept copies of outdated replicas are left out: nobody created them.
func (s *State) KnownSnapshots(source VolumeID, after SnapshotID) iter.Seq[*Snapshot] {
	all := s.Snapshots(after)
	if source != "" {
		all = s.SnapshotsOf(source, after)
	}
	return func(yield func(*Snapshot) bool) {
		for n := range all {
			if n.isKnown() && n.KeptCopy == nil && !yield(n) {
				return
			}
		}
	}
}

// SnapshotForMap is the target snapshot, when the host that keeps it can tell which blocks it
// has, or, with a base, which differ between the two.
func (s *State) SnapshotForMap(base, target SnapshotID) (*Snapshot, *Rejection) {
	to, rej := s.snapshotWithContent(target)
	if rej != nil || base == "" {
		return to, rej
	}
	from, rej := s.snapshotWithContent(base)
	switch {
	case rej != nil:
		return nil, rej
	case from.Source != to.Source:
		return nil, Reject(Invalid, "snapshots %s and %s are of different volumes", base, target)
	case from.Host != to.Host || from.Pool != to.Pool:
		return nil, Reject(Precondition, "snapshots %s and %s are kept in different pools: their blocks cannot be compared", base, target)
	}
	return to, nil
}

func (s *State) snapshotWithContent(id SnapshotID) (*Snapshot, *Rejection) {
	n, rej := s.KnownSnapshot(id)
	if rej == nil && n.Crypt != nil {
		rej = Reject(Precondition, "snapshot %s is of an encrypted volume: which blocks it has is not known without its key", n.ID)
	}
	if rej == nil && n.Missing {
		rej = Reject(Precondition, "the file of snapshot %s is missing on node %s", n.ID, n.Node)
	}
	return n, rej
}
