package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// applyCreateVolumeGroup makes a group of volumes, or of none, or joins the one of that name with the
// same members.
func applyCreateVolumeGroup(s *State, m Meta, c *fsmpb.CreateVolumeGroup) (*fsmpb.Outcome, *Rejection) {
	g, rej := requestedVolumeGroup(m.endpoint, c)
	if rej != nil {
		return nil, rej
	}
	if existing, exists := s.VolumeGroupByName(g.Origin, g.Name); exists {
		return existing.joinAt(g.Origin, &g)
	}
	if existing := s.replicatedGroupOf(g.Origin, g.Members); existing != nil && m.named {
		return s.joinFromSite(existing, &g, m.site)
	}
	if _, taken := s.VolumeGroup(g.ID); taken {
		return nil, Reject(Incompatible, "create volume group %q: id %s belongs to another one already", g.Name, g.ID)
	}
	if rej := s.checkMembership(m.endpoint, &g, nil, c.GetMaxVolumes(), Precondition); rej != nil {
		return nil, rej
	}
	g.Created = m.Epoch
	s.putVolumeGroup(g)
	return g.outcome(), nil
}

func requestedVolumeGroup(at endpoint, c *fsmpb.CreateVolumeGroup) (VolumeGroup, *Rejection) {
	g := VolumeGroup{ID: VolumeGroupID(c.GetVolumeGroupId()), Origin: at.site, Name: c.GetName(), Fingerprint: emptyAsNil(c.GetFingerprint()), Members: memberIDs(c.GetVolumeIds())}
	if !g.ID.Valid() {
		return g, Reject(Invalid, "create a volume group: %q is not a volume group's id", clip(c.GetVolumeGroupId()))
	}
	return g, checkNameAndFingerprint("create a volume group", g.Name, g.Fingerprint)
}

// memberIDs are the ids, sorted, each once.
func memberIDs(ids []string) (members []VolumeID) {
	for _, id := range ids {
		members = append(members, VolumeID(id))
	}
	slices.Sort(members)
	return slices.Compact(members)
}

func (g *VolumeGroup) outcome() *fsmpb.Outcome { return &fsmpb.Outcome{VolumeGroupId: string(g.ID)} }

// checkMembership checks all members before anything is written; those that were members already stay.
// What cannot be grouped is refused for the reason that the call has for it.
func (s *State) checkMembership(at endpoint, g *VolumeGroup, before []VolumeID, limit uint32, cannot Reason) *Rejection {
	for _, id := range g.Members {
		if _, stays := slices.BinarySearch(before, id); stays {
			continue
		}
		v, rej := s.readyVolume(string(id))
		if rej != nil {
			return rej
		}
		switch other := s.GroupOf(id); {
		case other != "" && other != g.ID:
			return Reject(cannot, "volume group %q: volume %s is in volume group %s already, and can be in one only", g.Name, id, other)
		case v.Relation != nil:
			return Reject(cannot, "volume group %q: volume %s is replicated by itself: disable that first", g.Name, id)
		case !at.serves(v.Home):
			return Reject(cannot, "volume group %q: volume %s is at home at site %s", g.Name, id, v.Home)
		}
	}
	if len(g.Members) > int(limit) {
		return Reject(NoCapacity, "volume group %q: it can have %d volumes, and would have %d", g.Name, limit, len(g.Members))
	}
	return nil
}

// applyModifyVolumeGroup gives a group exactly these members, or changes nothing.
func applyModifyVolumeGroup(s *State, m Meta, c *fsmpb.ModifyVolumeGroup) (*fsmpb.Outcome, *Rejection) {
	if out, rej := s.modifiedVolumeGroup(m.endpoint, c); out != nil || rej != nil {
		return out, rej
	}
	g, _ := s.VolumeGroup(VolumeGroupID(c.GetVolumeGroupId()))
	if rej := g.checkNotLate(m, "modify"); rej != nil {
		return nil, rej
	}
	if s.secondaryOf(g, m.endpoint) {
		return s.modifyFromSecondary(m, g, memberIDs(c.GetVolumeIds()))
	}
	updated := *g
	updated.Members = memberIDs(c.GetVolumeIds())
	limit := c.GetMaxVolumes()
	if len(updated.Members) < len(g.Members) {
		limit = max(limit, uint32(len(g.Members))) // it becomes smaller, whatever the limit was
	}
	if rej := s.checkMembership(m.endpoint, &updated, g.Members, limit, Invalid); rej != nil {
		return nil, rej
	}
	if g.Relation != nil {
		if rej := s.changeReplicatedMembers(m, g, updated); rej != nil {
			return nil, rej
		}
		return updated.outcome(), nil
	}
	s.putVolumeGroup(updated)
	return updated.outcome(), nil
}

// modifiedVolumeGroup is the outcome for a group that has these members; nil for others.
func (s *State) modifiedVolumeGroup(at endpoint, c *fsmpb.ModifyVolumeGroup) (*fsmpb.Outcome, *Rejection) {
	g, rej := s.ownVolumeGroup(at, "modify", c.GetVolumeGroupId())
	if rej != nil || !slices.Equal(memberIDs(c.GetVolumeIds()), g.Members) {
		return nil, rej
	}
	return g.outcome(), nil
}

// ownVolumeGroup finds a group of the endpoint's site.
func (s *State) ownVolumeGroup(at endpoint, action, id string) (*VolumeGroup, *Rejection) {
	g, ok := s.VolumeGroup(VolumeGroupID(id))
	if !ok {
		return nil, Reject(NotFound, "volume group %s is not known", clip(id))
	}
	if g.IsOf(at.site) {
		return g, nil
	}
	return g, at.checkOwner(action+" volume group "+string(g.ID), g.Origin)
}

// checkNotLate refuses a command whose proposer did not know the group as it is. A call that was held up would put
// back into the group, or delete with it, what others were told that it is not in.
func (g *VolumeGroup) checkNotLate(m Meta, action string) *Rejection {
	if m.Proposed == 0 || m.Proposed >= g.Modified {
		return nil
	}
	return Reject(Busy, "%s volume group %s: it was changed at index %d, after this was decided; retry", action, g.ID, g.Modified)
}

// applyDeleteVolumeGroup deletes a group with its members, or changes nothing: one that is in use or has
// snapshots keeps all of them. An unknown group is deleted already.
func applyDeleteVolumeGroup(s *State, m Meta, c *fsmpb.DeleteVolumeGroup) (*fsmpb.Outcome, *Rejection) {
	if outcome, rej := s.deletedVolumeGroup(m.endpoint, c); outcome != nil || rej != nil {
		return outcome, rej
	}
	g, _ := s.VolumeGroup(VolumeGroupID(c.GetVolumeGroupId()))
	if s.secondaryOf(g, m.endpoint) {
		return s.deleteFromSecondary(m, g)
	}
	if rej := g.checkNotLate(m, "delete"); rej != nil {
		return nil, rej
	}
	if g.Relation != nil {
		return nil, Reject(Precondition, "delete volume group %s: it is replicated between the sites %s and %s: disable that first", g.ID, g.Relation.Sites[0], g.Relation.Sites[1])
	}
	if c.GetKeepVolumes() && len(g.Members) > 0 {
		return nil, Reject(Precondition, "delete volume group %s: it has %d volumes: take them out first", g.ID, len(g.Members))
	}
	var copies []*Snapshot
	for _, id := range g.Members {
		of, rej := s.checkMemberDelete(m.endpoint, g, id)
		if rej != nil {
			return nil, rej
		}
		copies = append(copies, of...)
	}
	s.removeVolumeGroup(g.ID)
	s.removeKeptCopies(copies...)
	for _, id := range g.Members {
		v, _ := s.Volume(id)
		s.beginDelete(m, v, v.removalInGroup(m))
	}
	return &fsmpb.Outcome{VolumeGroupId: string(g.ID)}, nil
}

// deletedVolumeGroup is the outcome for a group that is not there, or whose use the endpoint's site has ended.
func (s *State) deletedVolumeGroup(at endpoint, c *fsmpb.DeleteVolumeGroup) (*fsmpb.Outcome, *Rejection) {
	if g, ok := s.VolumeGroup(VolumeGroupID(c.GetVolumeGroupId())); !ok || s.wasReplicatedTo(g, at) {
		return &fsmpb.Outcome{}, nil
	}
	g, rej := s.ownVolumeGroup(at, "delete", c.GetVolumeGroupId())
	if rej == nil && s.secondaryOf(g, at) && !g.isUsedBy(at.site) {
		return g.outcome(), nil
	}
	return nil, rej
}

// checkMemberDelete checks what a member's deletion needs, and is its kept copies, which go with it.
func (s *State) checkMemberDelete(at endpoint, g *VolumeGroup, id VolumeID) ([]*Snapshot, *Rejection) {
	v, _ := s.Volume(id)
	if n := s.liveSnapshotOf(id); n != nil {
		return nil, Reject(Precondition, "delete volume group %s: volume %s has snapshot %s", g.ID, id, n.ID)
	}
	copies, rej := s.checkDelete(at, v)
	if rej != nil {
		return nil, Reject(rej.Reason, "delete volume group %s: %s", g.ID, rej.Message)
	}
	return copies, nil
}

// liveSnapshotOf is a snapshot of the volume that somebody asked for, that was not given up before it was
// taken, and that is not being removed.
func (s *State) liveSnapshotOf(id VolumeID) *Snapshot {
	for n := range s.SnapshotsOf(id, "") {
		givenUp := n.Phase == SnapshotFailed && n.TakenAt.IsZero()
		if n.Phase != SnapshotDeleting && !givenUp && n.KeptCopy == nil {
			return n
		}
	}
	return nil
}

// removalInGroup is the operation that removes the volume where one entry begins several: another attempt
// of the one that made it, so that a late failure of that one does not count for the removal.
func (v *Volume) removalInGroup(m Meta) *Operation {
	op := m.operation(OpDelete)
	op.ID = OperationID(v.Created.Index)
	op.Retries = 1
	if made := v.findOperation(func(o *Operation) bool { return o.ID == op.ID }); made != nil {
		op.Retries = made.Retries + 1
	}
	return op
}

// groupToJoin is the group that a new volume joins in its own entry, empty for none. A volume of the name
// that failed leaves its place in it.
func (s *State) groupToJoin(at endpoint, failed *Volume, c *fsmpb.CreateVolume) (VolumeGroupID, *Rejection) {
	name := c.GetVolumeGroup()
	if name == "" {
		return "", nil
	}
	g, ok := s.VolumeGroup(VolumeGroupID(name))
	if !ok {
		g, ok = s.VolumeGroupByName(at.site, name)
	}
	if !ok {
		return "", Reject(NotFound, "create volume %q: volume group %q is not known", clip(c.GetName()), clip(name))
	}
	if rej := at.checkOwner("join volume group "+string(g.ID), g.Origin); rej != nil {
		return "", rej
	}
	if g.Relation != nil {
		return "", Reject(Precondition, "create volume %q: volume group %s is replicated: create the volume first, then put it into the group", clip(c.GetName()), g.ID)
	}
	members := len(g.Members)
	if failed != nil && g.isMember(failed.ID) {
		members--
	}
	if members >= int(c.GetMaxVolumes()) {
		return "", Reject(NoCapacity, "create volume %q: volume group %s can have %d volumes, and has them", clip(c.GetName()), g.ID, c.GetMaxVolumes())
	}
	return g.ID, nil
}

func (s *State) joinGroup(id VolumeGroupID, v VolumeID) {
	g, ok := s.VolumeGroup(id)
	if !ok {
		return
	}
	updated := *g
	i, _ := slices.BinarySearch(g.Members, v)
	updated.Members = slices.Insert(slices.Clone(g.Members), i, v)
	s.putVolumeGroup(updated)
}

// checkGroupMembers: a group snapshot that names a volume group is of all its members.
func (s *State) checkGroupMembers(at endpoint, id string, members []Snapshot) *Rejection {
	if id == "" {
		return nil
	}
	g, rej := s.ownVolumeGroup(at, "take a snapshot of", id)
	if rej != nil {
		return rej
	}
	sources := make([]VolumeID, len(members))
	for i := range members {
		sources[i] = members[i].Source
	}
	slices.Sort(sources)
	if !slices.Equal(sources, g.Members) {
		return Reject(Precondition, "the volumes are not those of volume group %s, which has %d", g.ID, len(g.Members))
	}
	return nil
}
