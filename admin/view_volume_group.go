package admin

import (
	"fmt"
	"io"
	"strings"

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

func volumeGroupsTable(w io.Writer, a *adminpb.VolumeGroupsResponse) {
	row(w, "ID", "NAME", "SITE", "VOLUMES", "HOME", "ROLE", "REPLICATION")
	for _, g := range a.GetGroups() {
		row(w, g.GetId(), g.GetName(), g.GetOrigin(), len(g.GetMembers()), strings.Join(g.GetHomes(), ","), roleCell(g.GetRelation()), replicationCell(g.GetRelation()))
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}
