package admin

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// ReplicaList lists the replicas of replicated volumes, one row for each.
var ReplicaList listing.Lister = replicaList

// replicaRow is one replica, with its volume.
type replicaRow struct {
	v *adminpb.Volume
	r *adminpb.Replica
}

func replicaRows(a *adminpb.VolumesResponse) (rows []replicaRow) {
	for _, v := range a.GetVolumes() {
		for _, r := range v.GetReplicas() {
			if v.GetReplication() != nil && r.GetState() != "gone" {
				rows = append(rows, replicaRow{v, r})
			}
		}
	}
	return rows
}

var replicaList = &listing.List[*adminpb.VolumesResponse, replicaRow]{
	Field: "volumes",
	Rows:  replicaRows,
	Item:  func(x replicaRow) proto.Message { return x.v },
	ID:    func(x replicaRow) string { return x.v.GetId() },
	RowID: func(x replicaRow) string { return x.r.GetHostId() },
	Columns: []listing.Column[replicaRow]{
		{Name: "VOLUME", Cell: func(x replicaRow) any { return x.v.GetId() }},
		{Name: "NAME", Cell: func(x replicaRow) any { return x.v.GetName() }},
		{Name: "NODE", Cell: func(x replicaRow) any { return x.r.GetNode() }},
		{Name: "STATE", Cell: func(x replicaRow) any { return x.r.GetState() }},
		{Name: "ROLE", Cell: func(x replicaRow) any { return x.r.GetRole() }},
		{Name: "LOG", Cell: func(x replicaRow) any { return logCell(x.r) }},
		{Name: "DISK", Cell: func(x replicaRow) any { return cmp.Or(x.r.GetDisk(), "unknown") }},
		{Name: "CONNECTION", Cell: func(x replicaRow) any { return connectionCell(x.r) }},
		{Name: "PERCENT", Cell: func(x replicaRow) any { return percentCell(x.r) }, Key: percentKey},
		{Name: "GENERATION", Cell: func(x replicaRow) any { return x.v.GetReplication().GetGeneration() }},
		{Name: "MINOR", Cell: func(x replicaRow) any { return x.v.GetReplication().GetMinor() }},
		{Name: "PORT", Cell: func(x replicaRow) any { return x.v.GetReplication().GetPort() }},
		{Name: "PROTOCOL", Cell: func(x replicaRow) any { return x.v.GetReplication().GetProtocol() }},
		{Name: "DEVICE", Wide: true, Cell: func(x replicaRow) any { return deviceCell(x.v.GetReplication()) }},
		{Name: "PEER DISK", Wide: true, Cell: func(x replicaRow) any { return x.r.GetPeerDisk() }},
		{Name: "OUT OF SYNC", Wide: true, Cell: func(x replicaRow) any { return formatSize(int64(min(x.r.GetOutOfSyncBytes(), 1<<62))) },
			Key: func(x replicaRow) any { return x.r.GetOutOfSyncBytes() }},
		{Name: "SEEN GENERATION", Wide: true, Cell: func(x replicaRow) any { return indexCell(x.r.GetGeneration()) }},
		{Name: "UUID", Wide: true, Cell: func(x replicaRow) any { return x.r.GetCurrentUuid() }},
		{Name: "ATTACHMENT", Wide: true, Cell: func(x replicaRow) any { return x.r.GetAttach() }},
		{Name: "GRANT", Wide: true, Cell: func(x replicaRow) any { return primaryCell(x.v.GetReplication().GetPrimary()) }},
		{Name: "POOL", Wide: true, Cell: func(x replicaRow) any { return x.r.GetPoolId() }},
		{Name: "HOST", Wide: true, Cell: func(x replicaRow) any { return x.r.GetHostId() }},
		{Name: "BOOT", Wide: true, Cell: func(x replicaRow) any { return x.r.GetBootId() }},
		{Name: "CONDITION", Cell: func(x replicaRow) any { return x.v.GetCondition() }},
	},
	Selectors: []listing.Selector[replicaRow]{
		{Flag: "node", Usage: "only replicas on `node`", Of: func(x replicaRow) []string { return []string{x.r.GetNode()} }},
		{Flag: "pool", Usage: "only replicas in the `pool` with this id", Of: func(x replicaRow) []string { return []string{x.r.GetPoolId()} }},
		namespaceSelector(func(x replicaRow) *adminpb.Claim { return x.v.GetClaim() }),
		{Flag: "state", Usage: "only replicas in this `state`: planned, present, missing, leaving", Valid: []string{"planned", "present", "missing", "leaving"},
			Of: func(x replicaRow) []string { return []string{x.r.GetState()} }},
		listing.Conditions(replicaConditions...),
	},
	Foot: atIndex[*adminpb.VolumesResponse],
}

var replicaConditions = []listing.Condition[replicaRow]{
	{Name: "up-to-date", Holds: func(x replicaRow) bool { return x.r.GetUpToDate() && !x.r.GetOutdated() }},
	{Name: "outdated", Holds: func(x replicaRow) bool { return x.r.GetOutdated() }},
	{Name: "not-up-to-date", Holds: func(x replicaRow) bool { return x.r.GetOutdated() || !x.r.GetUpToDate() }},
	{Name: "primary", Holds: func(x replicaRow) bool { return x.r.GetRole() == "primary" }},
	{Name: "resyncing", Holds: func(x replicaRow) bool { return percentCell(x.r) != "" }},
	{Name: "disconnected", Holds: func(x replicaRow) bool {
		return !slices.Contains(connectedStates, x.r.GetConnection())
	}},
	{Name: "frozen", Holds: func(x replicaRow) bool { return x.r.GetSuspended() }},
	{Name: "abnormal", Holds: func(x replicaRow) bool { return x.v.GetAbnormal() }},
}

// connectedStates are those of a connection over which writes go.
var connectedStates = []string{"connected", "sync_source", "sync_target", "verifying"}

func percentKey(x replicaRow) any {
	if percentCell(x.r) == "" {
		return ""
	}
	return x.r.GetPercent()
}

// primaryCell is who may be primary, and under which epoch.
func primaryCell(p *adminpb.Primary) any {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("%s %s at %d", p.GetNode(), p.GetEpoch(), p.GetIndex())
}
