package admin

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// VolumeGroupList lists volume groups. VolumeReplicationList and GroupReplicationList list the replication between sites of
// volumes and of groups: those that are in a relation or, of volumes, being converted.
var (
	VolumeGroupList       listing.Lister = volumeGroupList
	VolumeReplicationList listing.Lister = volumeReplicationList
	GroupReplicationList  listing.Lister = groupReplicationList
)

var volumeGroupList = &listing.List[*adminpb.VolumeGroupsResponse, *adminpb.VolumeGroup]{
	Field: "groups",
	Rows:  (*adminpb.VolumeGroupsResponse).GetGroups,
	Item:  func(g *adminpb.VolumeGroup) proto.Message { return g },
	ID:    (*adminpb.VolumeGroup).GetId,
	Columns: []listing.Column[*adminpb.VolumeGroup]{
		{Name: "ID", Cell: func(g *adminpb.VolumeGroup) any { return g.GetId() }},
		{Name: "NAME", Cell: func(g *adminpb.VolumeGroup) any { return g.GetName() }},
		{Name: "SITE", Cell: func(g *adminpb.VolumeGroup) any { return g.GetOrigin() }},
		groupVolumes,
		{Name: "HOME", Cell: func(g *adminpb.VolumeGroup) any { return strings.Join(g.GetHomes(), ",") }},
		{Name: "ROLE", Cell: func(g *adminpb.VolumeGroup) any { return roleCell(g.GetRelation()) }},
		{Name: "REPLICATION", Cell: func(g *adminpb.VolumeGroup) any { return replicationCell(g.GetRelation()) }},
		{Name: "CONDITION", Cell: func(g *adminpb.VolumeGroup) any { return groupConditionCell(g) }},
		{Name: "CREATED", Wide: true, Cell: func(g *adminpb.VolumeGroup) any { return g.GetCreated() }},
		{Name: "MODIFIED", Wide: true, Cell: func(g *adminpb.VolumeGroup) any { return g.GetModified() }},
	},
	Selectors: []listing.Selector[*adminpb.VolumeGroup]{relationConditions((*adminpb.VolumeGroup).GetRelation)},
	Foot:      atIndex[*adminpb.VolumeGroupsResponse],
}

// groupVolumes is how many volumes a group has, or which.
var groupVolumes = listing.Column[*adminpb.VolumeGroup]{Name: "VOLUMES", Cell: func(g *adminpb.VolumeGroup) any { return len(g.GetMembers()) },
	Full: func(g *adminpb.VolumeGroup) any { return strings.Join(g.GetMembers(), ",") }}

// relationConditions are those of replication between two sites.
func relationConditions[R any](of func(R) *adminpb.Relation) listing.Selector[R] {
	var all []listing.Condition[R]
	add := func(name string, holds func(*adminpb.Relation) bool) {
		all = append(all, listing.Condition[R]{Name: name, Holds: func(r R) bool { return of(r) != nil && holds(of(r)) }})
	}
	for _, status := range []string{"healthy", "degraded", "error", "unknown"} {
		add(status, func(r *adminpb.Relation) bool { return r.GetStatus() == status })
	}
	add("demoted", func(r *adminpb.Relation) bool { return r.GetPrimary() == "" && r.GetMovingTo() == "" })
	add("moving", func(r *adminpb.Relation) bool { return r.GetMovingTo() != "" })
	add("ousted", func(r *adminpb.Relation) bool { return len(r.GetOusted()) > 0 })
	return listing.Conditions(all...)
}

func volumeReplicationRows(a *adminpb.VolumesResponse) (rows []*adminpb.Volume) {
	for _, v := range a.GetVolumes() {
		if v.GetRelation() != nil || v.GetConversion() != nil {
			rows = append(rows, v)
		}
	}
	return rows
}

var volumeReplicationList = &listing.List[*adminpb.VolumesResponse, *adminpb.Volume]{
	Field: "volumes",
	Rows:  volumeReplicationRows,
	Item:  func(v *adminpb.Volume) proto.Message { return v },
	ID:    (*adminpb.Volume).GetId,
	Columns: append(append([]listing.Column[*adminpb.Volume]{
		{Name: "VOLUME", Cell: func(v *adminpb.Volume) any { return v.GetId() }},
		{Name: "NAME", Cell: func(v *adminpb.Volume) any { return v.GetName() }},
		{Name: "GROUP", Cell: func(v *adminpb.Volume) any { return v.GetRelation().GetGroup() }},
		{Name: "HOME", Cell: func(v *adminpb.Volume) any { return v.GetHome() }},
	}, relationColumns((*adminpb.Volume).GetRelation)...), []listing.Column[*adminpb.Volume]{
		{Name: "APART", Cell: func(v *adminpb.Volume) any { return v.GetRelation().GetApart() }},
		{Name: "GIVEN UP", Cell: func(v *adminpb.Volume) any { return givenUpCell(v.GetRelation().GetGivenUp()) }},
		{Name: "ADDED AT", Wide: true, Cell: func(v *adminpb.Volume) any { return v.GetRelation().GetAddedAt() }},
		{Name: "REVERTED TO", Wide: true, Cell: func(v *adminpb.Volume) any { return v.GetRelation().GetGivenUp().GetRevertedTo() }},
		{Name: "MESSAGE", Cell: func(v *adminpb.Volume) any { return conversionCell(v) }},
	}...),
	Selectors: []listing.Selector[*adminpb.Volume]{
		{Flag: "node", Usage: "only volumes that `node` keeps, has published or must tear down", Of: volumeNodes},
		{Flag: "pool", Usage: "only volumes with a replica in the `pool` with this id", Of: volumePools},
		namespaceSelector((*adminpb.Volume).GetClaim),
		phaseSelector(volumePhases, (*adminpb.Volume).GetPhase),
		relationConditions((*adminpb.Volume).GetRelation),
	},
	Foot: atIndex[*adminpb.VolumesResponse],
}

// relationColumns are those of a relation, a volume's or a group's.
func relationColumns[R any](of func(R) *adminpb.Relation) []listing.Column[R] {
	return []listing.Column[R]{
		{Name: "SITES", Cell: func(r R) any { return strings.Join(of(r).GetSites(), ",") }},
		{Name: "ROLE", Cell: func(r R) any { return roleCell(of(r)) }},
		{Name: "ROLE INDEX", Cell: func(r R) any { return of(r).GetRole() }},
		{Name: "STATUS", Cell: func(r R) any { return statusCell(of(r)) }},
		{Name: "OUSTED", Cell: func(r R) any { return oustedCell(of(r)) }},
		{Name: "CLAIMS", Cell: func(r R) any { return strings.Join(of(r).GetClaims(), ",") }},
		{Name: "LAST SYNC", Cell: func(r R) any { return lastSyncCell(of(r).GetLastSync()) }, Key: func(r R) any { return of(r).GetLastSync().GetEnded() }},
		{Name: "SYNC AGE", Wide: true, Since: func(r R) string { return of(r).GetLastSync().GetEnded() }},
		{Name: "REPLICATION ID", Wide: true, Cell: func(r R) any { return of(r).GetReplicationId() }},
		{Name: "EVER SYNCED", Wide: true, Cell: func(r R) any { return of(r).GetEverSynced() }},
		{Name: "ENABLED", Wide: true, Cell: func(r R) any { return indexCell(of(r).GetEnabled()) }},
	}
}

func groupReplicationRows(a *adminpb.VolumeGroupsResponse) (rows []*adminpb.VolumeGroup) {
	for _, g := range a.GetGroups() {
		if g.GetRelation() != nil {
			rows = append(rows, g)
		}
	}
	return rows
}

var groupReplicationList = &listing.List[*adminpb.VolumeGroupsResponse, *adminpb.VolumeGroup]{
	Field: "groups",
	Rows:  groupReplicationRows,
	Item:  func(g *adminpb.VolumeGroup) proto.Message { return g },
	ID:    (*adminpb.VolumeGroup).GetId,
	Columns: append(append([]listing.Column[*adminpb.VolumeGroup]{
		{Name: "GROUP", Cell: func(g *adminpb.VolumeGroup) any { return g.GetId() }},
		{Name: "NAME", Cell: func(g *adminpb.VolumeGroup) any { return g.GetName() }},
		groupVolumes,
		{Name: "HOME", Cell: func(g *adminpb.VolumeGroup) any { return strings.Join(g.GetHomes(), ",") }},
	}, relationColumns((*adminpb.VolumeGroup).GetRelation)...),
		listing.Column[*adminpb.VolumeGroup]{Name: "MESSAGE", Cell: func(g *adminpb.VolumeGroup) any { return g.GetRelation().GetMessage() }}),
	Selectors: []listing.Selector[*adminpb.VolumeGroup]{relationConditions((*adminpb.VolumeGroup).GetRelation)},
	Foot:      atIndex[*adminpb.VolumeGroupsResponse],
}
