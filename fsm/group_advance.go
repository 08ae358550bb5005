package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

// advanceGroup moves a group to its next phase when all its members allow it: its snapshots
// are taken only once all are frozen, and it is Ready only once all were taken under that
// freeze (S19). From feature level 2 on an aborted group is forgotten when no host has
// anything of it (S74).
func (s *State) advanceGroup(id GroupSnapshotID) {
	r, ok := s.snapshots.groups.Get(id)
	if !ok {
		return
	}
	g := &r.GroupSnapshot
	members := s.members(g)
	all := func(has func(*Snapshot) bool) bool {
		return !slices.ContainsFunc(members, func(n *Snapshot) bool { return !has(n) })
	}
	switch {
	case g.Phase == GroupFreezing && all(func(n *Snapshot) bool { return n.Frozen || plantedbug.Is(plantedbug.FreezeNotAwaited) }):
		updated := *g
		updated.Phase = GroupTaking
		s.putGroup(updated)
	case g.Phase == GroupTaking && all(func(n *Snapshot) bool { return !n.TakenAt.IsZero() }):
		s.completeGroup(g, members)
	case g.Phase == GroupDeleting && len(members) == 0:
		s.removeGroup(id)
	case g.Phase == GroupAborting && s.level2() && all(func(n *Snapshot) bool { return n.Gone }):
		s.forgetGroup(g)
	}
}

func (s *State) completeGroup(g *GroupSnapshot, members []*Snapshot) {
	updated := *g
	updated.Phase, updated.Operation, updated.TakenAt = GroupReady, nil, members[0].TakenAt
	for _, n := range members {
		if n.TakenAt.Before(updated.TakenAt) {
			updated.TakenAt = n.TakenAt
		}
		member := *n
		member.Phase, member.Frozen = SnapshotReady, false
		s.putSnapshot(member)
	}
	s.putGroup(updated)
}

// isUnderWay tells whether the group is being taken: until it is Ready no member counts.
func (g *GroupSnapshot) isUnderWay() bool { return g.Phase == GroupFreezing || g.Phase == GroupTaking }

// abortGroup ends a group's attempt: the snapshots taken so far are not of one instant, so
// all of them are removed (S19).
func (s *State) abortGroup(g *GroupSnapshot, reason Reason, why string) {
	updated := *g
	updated.Phase, updated.Error = GroupAborting, clip(why)
	op := *g.Operation
	op.State, op.Reason, op.LastError = OpFailed, reason, updated.Error
	op.Attempts++
	updated.Operation = &op
	if s.level2() {
		updated.Operation = g.Operation.asRemoval(reason, updated.Error)
	}
	for _, n := range s.members(g) {
		member := *n
		member.Phase, member.Error = SnapshotFailed, updated.Error
		member.Frozen, member.TakenAt = false, TimeOf(0)
		s.putSnapshot(member)
	}
	s.putGroup(updated)
}

// abortGroupsOn aborts the groups for which the host is freezing or taking a snapshot.
func (s *State) abortGroupsOn(node NodeID, reason Reason, why string) {
	var ids []GroupSnapshotID
	for _, id := range s.snapshots.index.groupOperations.Values() { // each that is under way has one
		if g, ok := s.GroupSnapshot(id); ok && slices.ContainsFunc(s.members(g), func(n *Snapshot) bool { return n.Node == node && !n.Gone }) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if g, ok := s.GroupSnapshot(id); ok && g.isUnderWay() {
			s.abortGroup(g, reason, why)
		}
	}
}

// loseSnapshots ends what a lost host kept of snapshots, and its pending removals (S105).
func (s *State) loseSnapshots(n *Node, reason string) {
	s.abortGroupsOn(n.ID, Precondition, reason)
	var affected []*Snapshot
	for kept := range s.SnapshotsOn(n.ID) {
		affected = append(affected, kept)
	}
	for _, kept := range affected {
		s.loseSnapshot(kept, reason)
	}
}

func (s *State) loseSnapshot(n *Snapshot, reason string) {
	updated, remains := s.withoutLostSnapshotHost(n, reason)
	if !remains {
		s.removeSnapshot(n.ID)
		s.advanceGroup(n.Group)
		return
	}
	s.putSnapshot(updated)
	if s.level2() {
		s.advanceGroup(n.Group)
	}
}

// loseAbortedGroups ends what a lost host had of aborted groups, which are
// forgotten as wholes.
func (s *State) loseAbortedGroups(n *Node, reason string) {
	for _, id := range s.snapshots.index.groupOperations.Values() {
		g, ok := s.GroupSnapshot(id)
		if !ok || g.Phase != GroupAborting {
			continue
		}
		for _, member := range s.members(g) {
			if member.Host == n.Host && !member.Gone {
				s.loseSnapshot(member, reason)
			}
		}
	}
}

// withoutLostSnapshotHost is the snapshot after its host was lost; false when nothing is left of it.
func (s *State) withoutLostSnapshotHost(n *Snapshot, reason string) (Snapshot, bool) {
	neverTaken := s.level2() && n.Group == "" && (n.Phase == SnapshotTaking || n.Phase == SnapshotFailed && n.TakenAt.IsZero())
	if n.Phase == SnapshotDeleting || neverTaken || n.KeptCopy != nil {
		return *n, false
	}
	updated := *n
	updated.Missing = n.Phase == SnapshotReady
	updated.Phase, updated.Gone, updated.Error, updated.Operation = SnapshotFailed, true, reason, nil
	return updated, true
}
