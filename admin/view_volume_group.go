package admin

import (
	"fmt"
	"io"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func volumeGroupView(g *fsm.VolumeGroup) *adminpb.VolumeGroup {
	return &adminpb.VolumeGroup{
		Id: string(g.ID), Name: g.Name, Origin: g.Origin.String(), Members: mapSlice(g.Members, func(id fsm.VolumeID) string { return string(id) }),
		Created: g.Created.String(), Modified: g.Modified,
	}
}

func volumeGroupsTable(w io.Writer, a *adminpb.VolumeGroupsResponse) {
	row(w, "ID", "NAME", "SITE", "VOLUMES")
	for _, g := range a.GetGroups() {
		row(w, g.GetId(), g.GetName(), g.GetOrigin(), len(g.GetMembers()))
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}
