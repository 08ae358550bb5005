package fsm

import (
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/plantedbug"
)

// RelationOf is the relation that a volume is in, its own or its group's; nil when it is replicated between no
// sites.
func (s *State) RelationOf(v *Volume) *Relation {
	if v.Relation != nil {
		return v.Relation
	}
	if v.RelationMember == nil {
		return nil
	}
	if g, ok := s.VolumeGroup(s.GroupOf(v.ID)); ok {
		return g.Relation
	}
	return nil
}

// replicationSource is a volume or a group, with its relation.
type replicationSource struct {
	s        *State
	group    *VolumeGroup // nil: it is a volume
	members  []*Volume
	relation *Relation // nil: it is not replicated
}

// name is the source, for people.
func (x *replicationSource) name() string {
	if x.group != nil {
		return "volume group " + string(x.group.ID)
	}
	return "volume " + string(x.members[0].ID)
}

// replicationSource finds a source, and its relation where it has one. NotFound: there is no such source, or its
// relation has another replication id.
func (s *State) replicationSource(c *fsmpb.ReplicationSource, replicationID string) (*replicationSource, *Rejection) {
	x := &replicationSource{s: s}
	var rej *Rejection
	switch group, volume := c.GetVolumeGroupId(), c.GetVolumeId(); {
	case (group == "") == (volume == ""):
		return nil, Reject(Invalid, "either a volume or a volume group is needed as the source of replication")
	case group != "":
		rej = x.readGroup(group)
	default:
		rej = x.readVolume(volume)
	}
	if rej == nil && x.relation != nil && replicationID != x.relation.ReplicationID && replicationID != "" && x.relation.ReplicationID != "" {
		rej = Reject(NotFound, "%s is not replicated under the id %q", x.name(), clip(replicationID))
	}
	return x, rej
}

func (x *replicationSource) readVolume(id string) *Rejection {
	v, rej := x.s.presentVolume(id)
	if known, ok := x.s.Volume(VolumeID(id)); ok && known.isContentLost() {
		v, rej = known, nil // it is replicated no more
	}
	if rej != nil {
		return rej
	}
	x.members, x.relation = []*Volume{v}, v.Relation
	return nil
}

func (x *replicationSource) readGroup(id string) *Rejection {
	g, ok := x.s.VolumeGroup(VolumeGroupID(id))
	if !ok {
		return Reject(NotFound, "volume group %s is not known", clip(id))
	}
	x.group, x.relation = g, g.Relation
	for _, member := range g.Members {
		if v, ok := x.s.Volume(member); ok && v.isContentLost() {
			continue // every host that had its content was lost: it is not replicated any more
		}
		v, rej := x.s.presentVolume(string(member))
		if rej != nil {
			return rej
		}
		x.members = append(x.members, v)
	}
	return nil
}

// inGroupsRelation tells whether the source is a volume whose group is replicated.
func (x *replicationSource) inGroupsRelation() bool {
	return x.group == nil && x.relation == nil && x.s.RelationOf(x.members[0]) != nil
}

// enabledSource finds a source that is replicated between the endpoint's site and another one.
func (s *State) enabledSource(m Meta, action string, c *fsmpb.ReplicationSource, replicationID string) (*replicationSource, *Rejection) {
	x, rej := s.replicationSource(c, replicationID)
	switch {
	case rej != nil:
		return nil, rej
	case x.inGroupsRelation():
		return nil, Reject(NotReplicated, "%s %s: it is not replicated by itself, but with volume group %s", action, x.name(), s.GroupOf(x.members[0].ID))
	case x.relation == nil:
		return nil, Reject(NotReplicated, "%s %s: it is not replicated between sites", action, x.name())
	case !m.named:
		return nil, Reject(Invalid, "%s %s: it needs the site that it is about", action, x.name())
	case !x.relation.has(m.site):
		return nil, Reject(NotReplicated, "%s %s: it is replicated between the sites %s and %s, not at %s", action, x.name(), x.relation.Sites[0], x.relation.Sites[1], m.site)
	}
	return x, nil
}

// checkRole refuses a call that was decided before the role moved (S39).
func (x *replicationSource) checkRole(action string, role uint64) *Rejection {
	if role == 0 || role == x.relation.Role || plantedbug.Is(plantedbug.RoleIndexUnchecked) {
		return nil
	}
	return Reject(Moved, "%s %s: its role moved at index %d, after this was decided; retry", action, x.name(), x.relation.Role)
}

// relationEdit is a relation and its volumes while one entry changes them. Nothing is written before put.
type relationEdit struct {
	*replicationSource
	relation Relation
	volumes  []Volume
	changed  []bool
}

func (x *replicationSource) edit() *relationEdit {
	e := &relationEdit{replicationSource: x, volumes: make([]Volume, len(x.members)), changed: make([]bool, len(x.members))}
	if x.relation != nil {
		e.relation = *x.relation
	}
	for i, v := range x.members {
		e.volumes[i] = *v
	}
	return e
}

// volume is a member, to be replaced by a changed copy.
func (e *relationEdit) volume(i int) *Volume {
	e.changed[i] = true
	return &e.volumes[i]
}

// setRole gives the role, and with it the home of every volume (S35).
func (e *relationEdit) setRole(site Site, index uint64) {
	e.relation = e.relation.withRole(site, index)
	for i := range e.volumes {
		e.volume(i).Home = site
	}
}

// put writes the relation and what changed of the volumes.
func (e *relationEdit) put() {
	relation := e.relation
	if e.group != nil {
		g := *e.group
		g.Relation = &relation
		e.s.putVolumeGroup(g)
	} else {
		e.volume(0).Relation = &relation
	}
	e.putVolumes()
}

// drop ends the relation, and with it a group that no site has a name for any more: nobody could end it later.
func (e *relationEdit) drop() {
	if e.group != nil {
		g := *e.group
		g.Relation = nil
		if len(g.liveNames()) == 0 {
			e.s.removeVolumeGroup(g.ID)
		} else {
			e.s.putVolumeGroup(g)
		}
	} else {
		e.volume(0).Relation = nil
	}
	e.putVolumes()
}

func (e *relationEdit) putVolumes() {
	for i := range e.volumes {
		if e.changed[i] {
			e.s.putVolume(e.volumes[i])
		}
	}
}

// replicaAt is the active replica at a site, nil when there is none.
func (s *State) replicaAt(v *Volume, site Site) *Replica {
	for _, l := range v.ActiveReplicas() {
		if n, ok := s.nodeOfReplica(l); ok && n.site() == site {
			return l
		}
	}
	return nil
}

// renumber gives an operation that this entry began the number of another entry, which began none of this kind: one entry may
// begin operations of many volumes, and each has its own number (S110).
func (v *Volume) renumber(kind OperationKind, index, id uint64) {
	if op := v.OperationOf(kind); op != nil && op.ID == OperationID(index) {
		renumbered := *op
		renumbered.ID, renumbered.Retries = OperationID(id), 1 // what is late of the one that had the number does not count
		v.putOperation(&renumbered)
	}
}

// siteCanBeAsked tells whether a host of a site that has a replica of one of the volumes, uses one, or owes the
// end of a use, can be reached and is not fenced (S30, S44).
func (s *State) siteCanBeAsked(volumes []*Volume, site Site) bool {
	for _, v := range volumes {
		for _, id := range v.InvolvedNodes() {
			if n, ok := s.Node(id); ok && n.site() == site && n.canBeAsked() {
				return true
			}
		}
	}
	return false
}

// owesTeardownAt tells whether a host of the site has not ended its use of the volume.
func (s *State) owesTeardownAt(v *Volume, site Site) bool {
	return slices.ContainsFunc(v.Teardowns, func(t Teardown) bool { return s.siteOf(t.Node) == site })
}

// publicationAt is a publication to a host of the site, nil when there is none.
func (s *State) publicationAt(v *Volume, site Site) *Publication {
	publications := v.Publications()
	for i := range publications {
		if s.siteOf(publications[i].Node) == site {
			return &publications[i]
		}
	}
	return nil
}
