package fsm

import (
	"cmp"
	"slices"
)

// KnownGroupSnapshot is the group whose snapshots are taken; NotFound: another one, or none.
func (s *State) KnownGroupSnapshot(id GroupSnapshotID) (*GroupSnapshot, *Rejection) {
	g, ok := s.GroupSnapshot(id)
	if !ok || g.Phase != GroupReady {
		return nil, UnknownGroupSnapshot(id)
	}
	return g, nil
}

// CheckMembers is Invalid for a list of snapshots that is not the group's, in any order.
func (g *GroupSnapshot) CheckMembers(given []SnapshotID) *Rejection {
	if len(given) == 0 {
		return Reject(Invalid, "snapshot_ids are required")
	}
	if !slices.Equal(slices.Sorted(slices.Values(given)), slices.Sorted(slices.Values(g.Members))) {
		return Reject(Invalid, "snapshot_ids are not the %d snapshots of group snapshot %s", len(g.Members), g.ID)
	}
	return nil
}

// MembersToDelete are the group's snapshots, none where the group is not known, which the caller
// must have listed all. A delete that is under way is joined: its list was checked.
func (s *State) MembersToDelete(id GroupSnapshotID, given []SnapshotID) ([]SnapshotID, *Rejection) {
	g, ok := s.GroupSnapshot(id)
	switch {
	case !ok:
		return nil, nil
	case g.Phase == GroupDeleting:
		return g.Members, nil
	}
	return g.Members, g.CheckMembers(given)
}

// GroupCreation is the group once all its snapshots are taken, nil before. Why its attempt was
// aborted has the reason that a host gave, else Busy: the next create begins another attempt.
func (s *State) GroupCreation(id GroupSnapshotID) (*GroupSnapshot, *Rejection) {
	g, ok := s.GroupSnapshot(id)
	failed := s.CreateFailure(string(id))
	switch {
	case !ok && failed != nil:
		return nil, Reject(cmp.Or(failed.Reason, Busy), "create group snapshot %s: %s", id, failed.LastError)
	case !ok || g.Phase == GroupDeleting:
		return nil, deletedMeanwhile("group snapshot", string(id))
	case g.Phase == GroupAborting:
		return nil, g.creationFailure()
	case g.Phase == GroupReady:
		return g, nil
	}
	return nil, nil
}

func (g *GroupSnapshot) creationFailure() *Rejection {
	reason := Busy
	if g.Operation != nil {
		reason = cmp.Or(g.Operation.Reason, Busy)
	}
	return Reject(reason, "create group snapshot %q: %s", g.Name, g.Error)
}

// GroupRemoval tells whether no reachable host has any of the group's members any more. The
// removal of a member is part of its group's operation.
func (s *State) GroupRemoval(id GroupSnapshotID, members []SnapshotID) (done bool, rej *Rejection) {
	for _, member := range members {
		switch gone, rej := s.SnapshotRemoval(member); {
		case rej != nil:
			return false, rej
		case !gone:
			return false, s.failedGroupRemoval(id)
		}
	}
	return true, nil
}

func (s *State) failedGroupRemoval(id GroupSnapshotID) *Rejection {
	g, ok := s.GroupSnapshot(id)
	if !ok || g.Operation == nil || g.Operation.State != OpFailed {
		return nil
	}
	return Reject(noReason, "delete group snapshot %s: %s; retry %s once this is mended", id, g.Operation.LastError, g.Operation.ID)
}
