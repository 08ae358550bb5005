package fsm

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyCreateGroupSnapshot begins to take snapshots of volumes at one instant, or joins the
// group of that name (S113). An aborted one begins another attempt, once nothing is
// left of the last.
func applyCreateGroupSnapshot(s *State, m Meta, c *fsmpb.CreateGroupSnapshot) (*fsmpb.Outcome, *Rejection) {
	requested, members, rej := requestedGroup(m.endpoint, c)
	if rej != nil {
		return nil, rej
	}
	existing, exists := s.GroupSnapshotByName(requested.Origin, requested.Name)
	if exists && existing.Phase != GroupAborting {
		return s.joinExistingGroup(existing, &requested, members)
	}
	if exists {
		if rej := s.checkAbortDone(existing); rej != nil {
			return nil, rej
		}
	}
	if exists && s.sameGroup(existing, &requested, members) {
		requested, members = *existing, s.memberRecords(existing)
	} else if rej := s.checkGroupIDsFree(&requested, members); rej != nil {
		return nil, rej
	}
	if rej := s.checkGroupMembers(m.endpoint, c.GetVolumeGroupId(), members); rej != nil {
		return nil, rej
	}
	return s.beginGroup(m, existing, requested, members)
}

// joinExistingGroup answers with the group that has the name, when it is what is asked for.
func (s *State) joinExistingGroup(existing, requested *GroupSnapshot, members []Snapshot) (*fsmpb.Outcome, *Rejection) {
	if !s.sameGroup(existing, requested, members) {
		return nil, Reject(Incompatible, "group snapshot %q exists of other volumes or with other parameters", existing.Name)
	}
	return existing.outcome(), nil
}

// beginGroup checks all members before it writes anything.
func (s *State) beginGroup(m Meta, existing *GroupSnapshot, g GroupSnapshot, members []Snapshot) (*fsmpb.Outcome, *Rejection) {
	if rej := s.planMembers(m, members); rej != nil {
		return nil, rej
	}
	if existing != nil && existing.ID != g.ID {
		s.forgetGroup(existing)
	}
	if g.Created.IsZero() {
		g.Created = m.Epoch
	}
	g.Attempt++
	g.Phase, g.Error, g.Operation = GroupFreezing, "", m.operation(OpSnapshot)
	for i := range members {
		s.putSnapshot(members[i])
	}
	s.putGroup(g)
	return g.outcome(), nil
}

// requestedGroup reads and checks what is asked for; the members in order of their sources.
func requestedGroup(at endpoint, c *fsmpb.CreateGroupSnapshot) (GroupSnapshot, []Snapshot, *Rejection) {
	g := GroupSnapshot{ID: GroupSnapshotID(c.GetGroupSnapshotId()), Name: c.GetName(), Fingerprint: emptyAsNil(c.GetFingerprint()), Origin: at.site}
	if !g.ID.Valid() {
		return g, nil, Reject(Invalid, "create a group snapshot: %q is not a group snapshot id", clip(c.GetGroupSnapshotId()))
	}
	if rej := checkNameAndFingerprint("create a group snapshot", g.Name, g.Fingerprint); rej != nil {
		return g, nil, rej
	}
	if n := len(c.GetMembers()); n == 0 || n > maxMembers {
		return g, nil, Reject(Invalid, "create group snapshot %q: it must have 1 to %d volumes, it has %d", g.Name, maxMembers, n)
	}
	var members []Snapshot
	ids := map[SnapshotID]bool{}
	for _, a := range c.GetMembers() {
		n := Snapshot{ID: SnapshotID(a.GetSnapshotId()), Source: VolumeID(a.GetSourceVolumeId()), Group: g.ID, Fingerprint: g.Fingerprint, Origin: g.Origin}
		if !n.ID.Valid() || ids[n.ID] {
			return g, nil, Reject(Invalid, "create group snapshot %q: %q is not a snapshot id, or is given twice", g.Name, clip(a.GetSnapshotId()))
		}
		ids[n.ID] = true
		members = append(members, n)
	}
	slices.SortFunc(members, func(a, b Snapshot) int { return cmp.Compare(a.Source, b.Source) })
	for i := range members {
		if i > 0 && members[i].Source == members[i-1].Source {
			return g, nil, Reject(Invalid, "create group snapshot %q: volume %s is given twice", g.Name, clip(string(members[i].Source)))
		}
		g.Members = append(g.Members, members[i].ID)
	}
	return g, members, nil
}

// sameGroup compares what makes two requests of one name equal.
func (s *State) sameGroup(existing, requested *GroupSnapshot, members []Snapshot) bool {
	own := s.memberRecords(existing)
	return bytes.Equal(existing.Fingerprint, requested.Fingerprint) &&
		slices.EqualFunc(own, members, func(a, b Snapshot) bool { return a.Source == b.Source })
}

// memberRecords are copies of the group's snapshots.
func (s *State) memberRecords(g *GroupSnapshot) []Snapshot {
	var all []Snapshot
	for _, n := range s.members(g) {
		all = append(all, *n)
	}
	return all
}

// checkAbortDone refuses while a host may still have something of the aborted attempt.
func (s *State) checkAbortDone(g *GroupSnapshot) *Rejection {
	for _, n := range s.members(g) {
		if n.Gone {
			continue
		}
		if _, rej := s.askableHost("snapshot "+string(n.ID), n.Node, n.Host); rej != nil {
			return rej
		}
		return Reject(Busy, "group snapshot %q was given up (%s), and node %s has not yet removed what it cut", g.Name, g.Error, n.Node)
	}
	return nil
}

// checkGroupIDsFree refuses ids that are in use.
func (s *State) checkGroupIDsFree(g *GroupSnapshot, members []Snapshot) *Rejection {
	if other, taken := s.GroupSnapshot(g.ID); taken {
		return Reject(Incompatible, "create group snapshot %q: id %s belongs to group snapshot %q already", g.Name, g.ID, other.Name)
	}
	for i := range members {
		if _, taken := s.Snapshot(members[i].ID); taken {
			return Reject(Incompatible, "create group snapshot %q: id %s belongs to another snapshot already", g.Name, members[i].ID)
		}
	}
	return nil
}

// planMembers makes the record of each member, when all of them can be taken together:
// each volume as for a snapshot of its own, none raw and written to (S19), with room
// for all in their pools.
func (s *State) planMembers(m Meta, members []Snapshot) *Rejection {
	room := map[PoolID]int64{}
	for i := range members {
		n := &members[i]
		if _, rej := s.homeVolume(m.endpoint, "create a group snapshot", string(n.Source)); rej != nil {
			return rej
		}
		from, rej := s.volumeOrigin(string(n.Source))
		if rej != nil {
			return rej
		}
		if v, _ := s.Volume(n.Source); v.isPublishedRawForWriting() {
			return Reject(Precondition, "volume %s is published raw for writing: it cannot be frozen for a group snapshot", n.Source)
		}
		if other := s.snapshotBeingTaken(string(n.Source)); other != "" {
			return Reject(Busy, "volume %s is just being cut for snapshot %s", n.Source, other)
		}
		room[from.pool] += from.size
		if _, rej := s.replicaInOriginPool(&from, room[from.pool], nil); rej != nil {
			return rej
		}
		plan := Snapshot{ID: n.ID, Source: n.Source, Group: n.Group, Fingerprint: n.Fingerprint, Sequence: n.Sequence, Created: n.Created, Origin: n.Origin}
		if plan.Created.IsZero() {
			plan.Created = m.Epoch
		}
		*n = plan.ofOrigin(&from)
	}
	return nil
}

// isPublishedRawForWriting tells whether a node may write to the volume's blocks without a filesystem.
func (v *Volume) isPublishedRawForWriting() bool {
	return slices.ContainsFunc(v.Publications(), func(p Publication) bool {
		return p.Capability.Block && !p.ReadOnly && !ReadOnlyMode(p.Capability.Mode)
	})
}

// groupTakingSnapshotOf is the group snapshot under way that has the volume as a member, empty when there is none.
func (s *State) groupTakingSnapshotOf(v VolumeID) GroupSnapshotID {
	n, ok := s.Snapshot(SnapshotID(s.snapshotBeingTaken(string(v))))
	if !ok {
		return ""
	}
	return n.Group
}

func (g *GroupSnapshot) outcome() *fsmpb.Outcome {
	out := &fsmpb.Outcome{GroupSnapshotId: string(g.ID)}
	if g.Operation != nil {
		out.OperationId = uint64(g.Operation.ID)
	}
	return out
}

// applyDeleteGroupSnapshot deletes the group with all its snapshots. The name is
// free at once; the records stay as pending removals (S18, S105).
func applyDeleteGroupSnapshot(s *State, m Meta, c *fsmpb.DeleteGroupSnapshot) (*fsmpb.Outcome, *Rejection) {
	if out := s.deletedGroupSnapshot(c); out != nil {
		return out, nil
	}
	g, _ := s.GroupSnapshot(GroupSnapshotID(c.GetGroupSnapshotId()))
	if rej := m.checkOwner("delete group snapshot "+string(g.ID), g.Origin); rej != nil {
		return nil, rej
	}
	for _, n := range s.members(g) {
		if rej := s.checkNotSource(InUse, "delete snapshot", string(n.ID)); rej != nil {
			return nil, rej
		}
	}
	updated := *g
	updated.Phase, updated.Operation = GroupDeleting, m.operation(OpDelete)
	for _, n := range s.members(g) {
		if n.Gone {
			s.removeSnapshot(n.ID)
			continue
		}
		leaving := *n
		leaving.Phase = SnapshotDeleting
		s.putSnapshot(leaving)
	}
	s.putGroup(updated)
	s.advanceGroup(g.ID)
	return updated.outcome(), nil
}

// deletedGroupSnapshot is the outcome for a group that is unknown or being deleted; nil for
// others.
func (s *State) deletedGroupSnapshot(c *fsmpb.DeleteGroupSnapshot) *fsmpb.Outcome {
	g, ok := s.GroupSnapshot(GroupSnapshotID(c.GetGroupSnapshotId()))
	switch {
	case !ok:
		return &fsmpb.Outcome{}
	case g.Phase == GroupDeleting:
		return g.outcome()
	}
	return nil
}

// forgetGroup drops a group of which no host keeps anything.
func (s *State) forgetGroup(g *GroupSnapshot) {
	for _, n := range s.members(g) {
		s.removeSnapshot(n.ID)
	}
	s.removeGroup(g.ID)
}
