package fsm

import "slices"

// advance moves a group on when all its members allow it: it is cut only once all
// are frozen, and Ready only once all were cut under that freeze (S19). From feature level
// 2 on one that was given up is forgotten when no host has anything of it (S74).
func (s *State) advance(id GroupSnapshotID) {
	r, ok := s.cuts.groups.Get(id)
	if !ok {
		return
	}
	g := &r.GroupSnapshot
	members := s.members(g)
	all := func(has func(*Snapshot) bool) bool {
		return !slices.ContainsFunc(members, func(n *Snapshot) bool { return !has(n) })
	}
	switch {
	case g.Phase == GroupFreezing && all(func(n *Snapshot) bool { return n.Frozen }):
		now := *g
		now.Phase = GroupCutting
		s.putGroup(now)
	case g.Phase == GroupCutting && all(func(n *Snapshot) bool { return !n.Cut.IsZero() }):
		s.completeGroup(g, members)
	case g.Phase == GroupDeleting && len(members) == 0:
		s.removeGroup(id)
	case g.Phase == GroupAborting && s.level2() && all(func(n *Snapshot) bool { return n.Gone }):
		s.forgetGroup(g)
	}
}

func (s *State) completeGroup(g *GroupSnapshot, members []*Snapshot) {
	now := *g
	now.Phase, now.Operation, now.Cut = GroupReady, nil, members[0].Cut
	for _, n := range members {
		if n.Cut.Before(now.Cut) {
			now.Cut = n.Cut
		}
		member := *n
		member.Phase, member.Frozen = SnapshotReady, false
		s.putSnapshot(member)
	}
	s.putGroup(now)
}

// underWay tells whether the group is being cut: until then nothing of it counts.
func (g *GroupSnapshot) underWay() bool { return g.Phase == GroupFreezing || g.Phase == GroupCutting }

// giveUp ends a group's attempt: what was cut is not of one instant any more, so all
// of it is removed (S19).
func (s *State) giveUp(g *GroupSnapshot, reason Reason, why string) {
	now := *g
	now.Phase, now.Error = GroupAborting, clip(why)
	op := *g.Operation
	op.State, op.Reason, op.LastError = OpFailed, reason, now.Error
	op.Attempts++
	now.Operation = &op
	if s.level2() {
		now.Operation = g.Operation.turnedIntoRemoval(reason, now.Error)
	}
	for _, n := range s.members(g) {
		member := *n
		member.Phase, member.Error = SnapshotFailed, now.Error
		member.Frozen, member.Cut = false, timeOf(0)
		s.putSnapshot(member)
	}
	s.putGroup(now)
}

// giveUpOn gives up the groups that the host is just freezing or cutting for.
func (s *State) giveUpOn(node NodeID, reason Reason, why string) {
	var ids []GroupSnapshotID
	for _, id := range s.cuts.index.groupOperations.Values() { // each that is under way has one
		if g, ok := s.GroupSnapshot(id); ok && slices.ContainsFunc(s.members(g), func(n *Snapshot) bool { return n.Node == node && !n.Gone }) {
			ids = append(ids, id)
		}
	}
	for _, id := range ids {
		if g, ok := s.GroupSnapshot(id); ok && g.underWay() {
			s.giveUp(g, reason, why)
		}
	}
}

// loseSnapshots ends what a lost host kept and owed of snapshots (S105).
func (s *State) loseSnapshots(n *Node, reason string) {
	s.giveUpOn(n.ID, Precondition, reason)
	var held []*Snapshot
	for kept := range s.SnapshotsOn(n.ID) {
		held = append(held, kept)
	}
	for _, kept := range held {
		s.loseSnapshot(kept, reason)
	}
}

func (s *State) loseSnapshot(n *Snapshot, reason string) {
	now, kept := s.lostSnapshot(n, reason)
	if !kept {
		s.removeSnapshot(n.ID)
		s.advance(n.Group)
		return
	}
	s.putSnapshot(now)
	if s.level2() {
		s.advance(n.Group)
	}
}

// loseGivenUp ends what a lost host had of the groups that were given up, which are
// forgotten as wholes.
func (s *State) loseGivenUp(n *Node, reason string) {
	for _, id := range s.cuts.index.groupOperations.Values() {
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

// lostSnapshot is the snapshot after its host was lost; false when nothing is left of it.
func (s *State) lostSnapshot(n *Snapshot, reason string) (Snapshot, bool) {
	never := s.level2() && n.Group == "" && (n.Phase == SnapshotCutting || n.Phase == SnapshotFailed && n.Cut.IsZero())
	if n.Phase == SnapshotDeleting || never || n.Kept != nil {
		return *n, false
	}
	now := *n
	now.Missing = n.Phase == SnapshotReady
	now.Phase, now.Gone, now.Error, now.Operation = SnapshotFailed, true, reason, nil
	return now, true
}
