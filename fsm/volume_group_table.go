package fsm

import (
	"iter"
	"slices"

	"github.com/tidwall/btree"
)

// volumeGroupSection is where the groups are in a dump.
const volumeGroupSection = 10

// volumeGroupTables are the table of volume groups and what can be derived from it.
type volumeGroupTables struct {
	byID    *btree.Map[VolumeGroupID, *storedVolumeGroup]
	names   nameTable[VolumeGroupID]
	groupOf *btree.Map[VolumeID, VolumeGroupID] // of each member (S106)
}

func newVolumeGroupTables() volumeGroupTables {
	return volumeGroupTables{
		byID:    new(btree.Map[VolumeGroupID, *storedVolumeGroup]),
		names:   newNameTable[VolumeGroupID](),
		groupOf: new(btree.Map[VolumeID, VolumeGroupID]),
	}
}

func (t *volumeGroupTables) copy() volumeGroupTables {
	return volumeGroupTables{byID: t.byID.Copy(), names: t.names.Copy(), groupOf: t.groupOf.Copy()}
}

// VolumeGroups yields all groups with an id above after, in order of id.
func (s *State) VolumeGroups(after VolumeGroupID) iter.Seq[*VolumeGroup] {
	return func(yield func(*VolumeGroup) bool) {
		s.volumeGroups.byID.Ascend(after, func(id VolumeGroupID, r *storedVolumeGroup) bool {
			return id == after || yield(&r.VolumeGroup)
		})
	}
}

// putVolumeGroup is the only way a group enters the state or changes.
func (s *State) putVolumeGroup(g VolumeGroup) {
	g.Modified = s.cluster.Index
	if old, known := s.VolumeGroup(g.ID); known {
		s.announceMembers(old)
	}
	s.storeVolumeGroup(g)
	s.announceMembers(&g)
	s.writes++
}

// announceMembers announces the volumes of a group that changes: their hosts keep of which group they are.
func (s *State) announceMembers(g *VolumeGroup) {
	for _, id := range g.Members {
		v, ok := s.Volume(id)
		for i := 0; ok && i < len(v.Replicas); i++ {
			s.changes = append(s.changes, Change{Volume: id, Node: v.Replicas[i].Node})
		}
	}
}

// storeVolumeGroup keeps table, indexes and hash together.
func (s *State) storeVolumeGroup(g VolumeGroup) {
	r := &storedVolumeGroup{VolumeGroup: g}
	r.hash = hashVolumeGroup(&s.scratch, &r.VolumeGroup)
	if old, replaced := s.volumeGroups.byID.Set(g.ID, r); replaced {
		s.forgetVolumeGroup(old)
	}
	s.sum = s.sum.plus(r.hash)
	s.index.setUnsettled(string(g.ID), g.Relation)
	for _, n := range g.liveNames() {
		s.volumeGroups.names.Set(n, g.ID)
	}
	for _, id := range g.Members {
		s.volumeGroups.groupOf.Set(id, g.ID)
	}
}

// removeVolumeGroup forgets a group; its members are in none then.
func (s *State) removeVolumeGroup(id VolumeGroupID) {
	if old, ok := s.volumeGroups.byID.Delete(id); ok {
		s.forgetVolumeGroup(old)
		s.announceMembers(&old.VolumeGroup)
		s.writes++
	}
}

func (s *State) forgetVolumeGroup(old *storedVolumeGroup) {
	s.sum = s.sum.minus(old.hash)
	s.index.setUnsettled(string(old.ID), nil)
	for _, n := range old.liveNames() {
		s.volumeGroups.names.Delete(n)
	}
	for _, id := range old.Members {
		s.volumeGroups.groupOf.Delete(id)
	}
}

// leaveGroup takes a volume that is about to be deleted or forgotten out of its group.
func (s *State) leaveGroup(id VolumeID) {
	g, ok := s.VolumeGroup(s.GroupOf(id))
	if !ok {
		return
	}
	updated := *g
	updated.Members = slices.DeleteFunc(slices.Clone(g.Members), func(m VolumeID) bool { return m == id })
	s.putVolumeGroup(updated)
	for _, other := range updated.Members {
		s.endAhead(other)
	}
}

// leaveGroupsAfterLoss takes what a loss left nothing of, volumes that were being made, out of their groups
// at once: the sweep that forgets them may take a while.
func (s *State) leaveGroupsAfterLoss() {
	if s.volumeGroups.groupOf.Len() == 0 {
		return
	}
	for _, key := range s.index.byOperation.Values() {
		e, ok := s.volumes.Get(volumeItem{key: key})
		if !ok || s.GroupOf(e.stored.ID) == "" {
			continue
		}
		if v, remains := s.withSweeps(&e.stored.Volume); !remains || v.isDeleting() {
			s.leaveGroup(e.stored.ID)
		}
	}
}

// checkVolumeGroups is S106: members are live volumes, each in one group, and the indexes are what the
// records make them.
func (s *State) checkVolumeGroups() error {
	members, names := 0, 0
	for g := range s.VolumeGroups("") {
		members += len(g.Members)
		for _, n := range g.liveNames() {
			names++
			if id, ok := s.volumeGroups.names.Get(n); !ok || id != g.ID {
				return violated("S106", "volume group %s is not found by its name %q", g.ID, n.name)
			}
		}
		if len(g.liveNames()) == 0 && g.Relation == nil {
			return violated("S37", "volume group %s is of no site any more", g.ID)
		}
		if !slices.IsSorted(g.Members) {
			return violated("S106", "the members of volume group %s are not sorted", g.ID)
		}
		for _, id := range g.Members {
			v, ok := s.Volume(id)
			if !ok || !v.isLive() {
				return violated("S106", "volume group %s has the member %s, which is no volume any more", g.ID, id)
			}
			if s.GroupOf(id) != g.ID {
				return violated("S106", "volume %s is in volume group %s and in %s", id, g.ID, s.GroupOf(id))
			}
		}
	}
	if members != s.volumeGroups.groupOf.Len() || names != len(s.volumeGroups.names.Items()) {
		return violated("S106", "an index of volume groups is not what the records make it")
	}
	return nil
}

func (v *Volume) isLive() bool {
	_, deleting := v.Phase.(Deleting)
	return !deleting
}
