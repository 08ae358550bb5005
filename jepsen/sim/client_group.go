package sim

import (
	"context"

	spec "github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"

	"github.com/holdfast-storage/holdfast/fsm"
)

// groupName is that of the one volume group of a seed.
const groupName = "together"

// volumeGroup is the claims whose volumes have one role: site A makes their group, which is replicated.
type volumeGroup struct {
	s       *Sim
	members []*claim
}

// claims are those that have the roles.
func (r *roles) claims() []*claim {
	if r.group != nil {
		return r.group.members
	}
	return []*claim{r.claim}
}

// made is the group in the log, nil for none. Site A may have given up its name while site B has it.
func (g *volumeGroup) made() *fsm.VolumeGroup {
	for made := range g.s.log.state.VolumeGroups("") {
		return made
	}
	return nil
}

// source is the group; one that is not made has an id that nobody knows.
func (g *volumeGroup) source() *spec.ReplicationSource {
	id := string(fsm.VolumeGroupIDFrom([16]byte{}))
	if made := g.made(); made != nil {
		id = string(made.ID)
	}
	return &spec.ReplicationSource{Type: &spec.ReplicationSource_Volumegroup{Volumegroup: &spec.ReplicationSource_VolumeGroupSource{VolumeGroupId: id}}}
}

// nextCall makes the group before anything is asked of it, and sometimes ends it while it is in no relation; first is
// false where a call about its role is next.
func (g *volumeGroup) nextCall(r *roles) (call *csiCall, first bool) {
	if g == nil {
		return nil, false
	}
	made := g.made()
	switch {
	case made == nil || len(made.Members) == 0:
		return g.make(r), true
	case made.Relation == nil && g.s.tape.oneIn(12):
		return g.modify(r, nil), true
	}
	return nil, false
}

// make makes the group of all members, or gives it all of them; nil while one of them is not made.
func (g *volumeGroup) make(r *roles) *csiCall {
	var ids []string
	for _, c := range g.members {
		if c.id == "" {
			return nil
		}
		ids = append(ids, c.id)
	}
	if g.made() != nil {
		return g.modify(r, ids)
	}
	return r.call("make-group", siteA, func(ctx context.Context, m *member) error {
		_, err := m.volumeGroups.CreateVolumeGroup(ctx, &volumegroup.CreateVolumeGroupRequest{Name: groupName, VolumeIds: ids})
		return err
	}, func(error) {})
}

func (g *volumeGroup) modify(r *roles, ids []string) *csiCall {
	id := g.source().GetVolumegroup().GetVolumeGroupId()
	return r.call("modify-group", siteA, func(ctx context.Context, m *member) error {
		_, err := m.volumeGroups.ModifyVolumeGroupMembership(ctx, &volumegroup.ModifyVolumeGroupMembershipRequest{VolumeGroupId: id, VolumeIds: ids})
		return err
	}, func(error) {})
}

// remove deletes the group, which has no members any more.
func (g *volumeGroup) remove(r *roles) *csiCall {
	id := g.source().GetVolumegroup().GetVolumeGroupId()
	return r.call("remove-group", siteA, func(ctx context.Context, m *member) error {
		_, err := m.volumeGroups.DeleteVolumeGroup(ctx, &volumegroup.DeleteVolumeGroupRequest{VolumeGroupId: id})
		return err
	}, func(error) {})
}

// end ends the group's replication, takes the members out of it, then deletes it; nil where there is none.
func (g *volumeGroup) end(r *roles) *csiCall {
	made := g.made()
	switch {
	case made == nil:
		return nil
	case made.Relation != nil && made.Relation.Move != nil:
		return r.promote(made.Relation.Move.To, false)
	case made.Relation != nil && made.Relation.Promoted:
		return r.disable(made.Relation.Primary)
	case made.Relation != nil:
		return r.disable(g.s.siteNames()[g.s.tape.pick(2)])
	case len(made.Members) > 0:
		return g.modify(r, nil)
	}
	return g.remove(r)
}

// leftGroup is a call that deletes the group when all volumes are gone; nil where there is none.
func (c *clients) leftGroup() *csiCall {
	for _, one := range c.claims {
		if one.roles != nil && one.roles.group != nil {
			return one.roles.group.end(one.roles)
		}
	}
	return nil
}
