package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// VolumeGroupID is `hg-` plus a UUID.
type VolumeGroupID string

const volumeGroupPrefix = "hg-"

// VolumeGroupIDFrom is the volume group's id with that UUID.
func VolumeGroupIDFrom(uuid [16]byte) VolumeGroupID {
	return VolumeGroupID(idFromUUID(volumeGroupPrefix, uuid))
}

// Valid tells whether the id has the pattern of a volume group's id.
func (id VolumeGroupID) Valid() bool {
	_, ok := uuidAfter(volumeGroupPrefix, string(id))
	return ok
}

// VolumeGroup is volumes that an orchestrator treats as one. A *VolumeGroup that came out of a State is
// immutable.
type VolumeGroup struct {
	ID          VolumeGroupID
	Origin      Site // through which it was made: its name is unique there
	Name        string
	Fingerprint []byte     // of the parameters
	Members     []VolumeID // sorted; each volume is in one group at most (S106)
	// Relation is the replication of all members between two sites; nil: there is none.
	Relation *Relation
	// Names are those at other sites, through which it is used as well, sorted by site.
	Names    []GroupName
	Created  Epoch
	Modified uint64
}

// GroupName is the name of a group at a site that did not make it.
type GroupName struct {
	Site        Site
	Name        string
	Fingerprint []byte
}

// storedVolumeGroup is a group in its table, with the hash of what it holds.
type storedVolumeGroup struct {
	VolumeGroup
	hash sum256
}

func hashVolumeGroup(e *encoder, g *VolumeGroup) sum256 {
	e.begin(kindVolumeGroup)
	e.str(string(g.ID))
	e.str(string(g.Origin))
	e.str(g.Name)
	e.bytes(g.Fingerprint)
	e.u64(uint64(len(g.Members)))
	for _, id := range g.Members {
		e.str(string(id))
	}
	e.epoch(g.Created)
	e.u64(g.Modified)
	hashRelation(e, g.Relation)
	for _, n := range g.Names {
		e.u64(fieldGroupNames)
		e.str(string(n.Site))
		e.str(n.Name)
		e.bytes(n.Fingerprint)
	}
	return e.sum()
}

func volumeGroupRecord(g *VolumeGroup) *fsmpb.VolumeGroupRecord {
	r := &fsmpb.VolumeGroupRecord{
		GroupId: packedAfter(volumeGroupPrefix, string(g.ID)), Origin: string(g.Origin), Name: g.Name, Fingerprint: g.Fingerprint,
		Created: g.Created.Proto(), ModifiedAfter: g.Modified - g.Created.Index, Relation: g.Relation.record(),
	}
	for _, n := range g.Names {
		r.Names = append(r.Names, &fsmpb.GroupNameRecord{Site: string(n.Site), Name: n.Name, Fingerprint: n.Fingerprint})
	}
	for _, id := range g.Members {
		r.Members = append(r.Members, packedAfter(volumePrefix, string(id)))
	}
	return r
}

func (x *dumpDecoder) volumeGroup(r *fsmpb.VolumeGroupRecord) (err error) {
	g := VolumeGroup{
		ID: VolumeGroupID(idFrom(volumeGroupPrefix, r.GetGroupId(), false, &err)), Origin: Site(r.GetOrigin()), Name: r.GetName(),
		Fingerprint: r.GetFingerprint(), Created: EpochFrom(r.GetCreated()), Modified: r.GetCreated().GetIndex() + r.GetModifiedAfter(),
		Relation: relationFrom(r.GetRelation(), &err),
	}
	for _, n := range r.GetNames() {
		g.Names = append(g.Names, GroupName{Site: Site(n.GetSite()), Name: n.GetName(), Fingerprint: emptyAsNil(n.GetFingerprint())})
	}
	for _, id := range r.GetMembers() {
		g.Members = append(g.Members, VolumeID(idFrom(volumePrefix, id, false, &err)))
	}
	if err == nil {
		err = x.checkOrder(volumeGroupSection, string(g.ID))
	}
	if err != nil {
		return err
	}
	for _, n := range g.liveNames() {
		if _, twice := x.s.volumeGroups.names.Get(n); twice {
			return errOrder
		}
	}
	for _, id := range g.Members {
		if _, twice := x.s.volumeGroups.groupOf.Get(id); twice {
			return errOrder
		}
	}
	x.s.storeVolumeGroup(g)
	return nil
}

// liveNames are its names, by site. The site that made it may have given its name up.
func (g *VolumeGroup) liveNames() (names []scopedName) {
	if g.Name != "" {
		names = append(names, scopedName{g.Origin, g.Name})
	}
	for _, n := range g.Names {
		names = append(names, scopedName{n.Site, n.Name})
	}
	return names
}

// VolumeGroup is the group with that id.
func (s *State) VolumeGroup(id VolumeGroupID) (*VolumeGroup, bool) {
	r, ok := s.volumeGroups.byID.Get(id)
	if !ok {
		return nil, false
	}
	return &r.VolumeGroup, true
}

// VolumeGroupByName is the group of that name at a site (S33).
func (s *State) VolumeGroupByName(site Site, name string) (*VolumeGroup, bool) {
	id, ok := s.volumeGroups.names.Get(scopedName{site, name})
	if !ok {
		return nil, false
	}
	return s.VolumeGroup(id)
}

// VolumeGroupNamed is VolumeNamed of a volume group.
func (s *State) VolumeGroupNamed(text string) *VolumeGroup {
	return namedAnywhere(s, text, s.VolumeGroupByName)
}

// GroupOf is the group that has the volume as a member, empty when none has.
func (s *State) GroupOf(id VolumeID) VolumeGroupID {
	group, _ := s.volumeGroups.groupOf.Get(id)
	return group
}

// isMember tells whether the volume is a member.
func (g *VolumeGroup) isMember(id VolumeID) bool {
	_, found := slices.BinarySearch(g.Members, id)
	return found
}
