package admin

import (
	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func volumeGroupView(st *fsm.State, g *fsm.VolumeGroup) *adminpb.VolumeGroup {
	return &adminpb.VolumeGroup{
		Id: string(g.ID), Name: g.Name, Origin: g.Origin.String(), Members: mapSlice(g.Members, func(id fsm.VolumeID) string { return string(id) }),
		Created: g.Created.String(), Modified: g.Modified,
		Homes: homesOf(st, g), Relation: groupRelationView(st, g),
	}
}
