package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// VolumeList lists volumes.
var VolumeList listing.Lister = volumeList

var volumeList = &listing.List[*adminpb.VolumesResponse, *adminpb.Volume]{
	Field: "volumes",
	Rows:  (*adminpb.VolumesResponse).GetVolumes,
	Item:  func(v *adminpb.Volume) proto.Message { return v },
	ID:    (*adminpb.Volume).GetId,
	Columns: []listing.Column[*adminpb.Volume]{
		{Name: "ID", Cell: func(v *adminpb.Volume) any { return v.GetId() }},
		{Name: "NAME", Cell: func(v *adminpb.Volume) any { return v.GetName() }},
		{Name: "SIZE", Cell: func(v *adminpb.Volume) any { return formatSize(v.GetSizeBytes()) }, Key: func(v *adminpb.Volume) any { return v.GetSizeBytes() }},
		{Name: "PHASE", Cell: func(v *adminpb.Volume) any { return v.GetPhase() }},
		{Name: "FORMAT", Cell: func(v *adminpb.Volume) any { return cmp.Or(v.GetFsType(), v.GetFormat()) }},
		{Name: "NODES", Cell: func(v *adminpb.Volume) any { return strings.Join(replicaNodes(v), ",") }},
		{Name: "HOME", Cell: func(v *adminpb.Volume) any { return v.GetHome() }},
		{Name: "PUBLISHED", Cell: func(v *adminpb.Volume) any { return strings.Join(mapSlice(v.GetPublications(), publicationCell), ",") }},
		{Name: "SOURCE", Cell: func(v *adminpb.Volume) any { return cmp.Or(v.GetSource().GetSnapshot(), v.GetSource().GetVolume()) }},
		{Name: "LIMITS", Cell: func(v *adminpb.Volume) any { return limitsCell(v.GetLimits()) }},
		{Name: "CLAIM", Cell: func(v *adminpb.Volume) any { return cmp.Or(claimCell(v.GetClaim()), v.GetMadeBy()) }},
		{Name: "PODS", Wide: true, Cell: func(v *adminpb.Volume) any { return strings.Join(v.GetClaim().GetPods(), ",") }},
		{Name: "GROUP", Cell: func(v *adminpb.Volume) any { return v.GetGroup() }},
		{Name: "ENCRYPTION", Cell: func(v *adminpb.Volume) any { return encryptionCell(v.GetEncryption()) }},
		{Name: "ROLE", Cell: func(v *adminpb.Volume) any { return roleCell(v.GetRelation()) }},
		{Name: "REPLICATION", Cell: func(v *adminpb.Volume) any { return replicationCell(v.GetRelation()) }},
		{Name: "REPLICAS", Wide: true, Cell: replicasCell, Key: func(v *adminpb.Volume) any { return len(v.GetReplicas()) }},
		{Name: "DEVICE", Wide: true, Cell: func(v *adminpb.Volume) any { return deviceCell(v.GetReplication()) }},
		{Name: "EPOCHS", Wide: true, Cell: epochsCell},
		{Name: "GENERATION", Wide: true, Cell: func(v *adminpb.Volume) any { return indexCell(v.GetReplication().GetGeneration()) }},
		{Name: "TEARDOWNS", Wide: true, Cell: teardownsCell},
		{Name: "OPERATION", Wide: true, Cell: func(v *adminpb.Volume) any { return operationCell(v.GetOperation()) }},
		{Name: "MODES", Wide: true, Cell: func(v *adminpb.Volume) any { return strings.Join(v.GetAccessModes(), ",") }},
		{Name: "FS UUID", Wide: true, Cell: func(v *adminpb.Volume) any { return v.GetFsUuid() }},
		{Name: "ORIGIN", Wide: true, Cell: func(v *adminpb.Volume) any { return v.GetOrigin() }},
		{Name: "CREATED", Wide: true, Cell: func(v *adminpb.Volume) any { return v.GetCreated() }},
		{Name: "MODIFIED", Wide: true, Cell: func(v *adminpb.Volume) any { return v.GetModified() }},
		{Name: "CONDITION", Cell: func(v *adminpb.Volume) any { return cmp.Or(v.GetReason(), v.GetCondition()) }},
	},
	Selectors: []listing.Selector[*adminpb.Volume]{
		{Flag: "node", Usage: "only volumes that `node` keeps, has published or must tear down", Of: volumeNodes},
		{Flag: "pool", Usage: "only volumes with a replica in the `pool` with this id", Of: volumePools},
		namespaceSelector((*adminpb.Volume).GetClaim),
		phaseSelector(volumePhases, (*adminpb.Volume).GetPhase),
		listing.Conditions(volumeConditions...),
	},
	Foot: atIndex[*adminpb.VolumesResponse],
}

var volumePhases = []string{"creating", "ready", "deleting", "failed"}

var volumeConditions = []listing.Condition[*adminpb.Volume]{
	{Name: "abnormal", Holds: func(v *adminpb.Volume) bool { return v.GetAbnormal() || v.GetReason() != "" }},
	{Name: "published", Holds: func(v *adminpb.Volume) bool { return len(v.GetPublications()) > 0 }},
	{Name: "unpublished", Holds: func(v *adminpb.Volume) bool { return len(v.GetPublications()) == 0 }},
	{Name: "replicated", Holds: func(v *adminpb.Volume) bool { return v.GetReplication() != nil }},
	{Name: "degraded", Holds: isDegraded},
	{Name: "frozen", Holds: func(v *adminpb.Volume) bool {
		return slices.ContainsFunc(v.GetReplicas(), (*adminpb.Replica).GetSuspended)
	}},
	{Name: "encrypted", Holds: func(v *adminpb.Volume) bool { return v.GetEncryption() != nil }},
	{Name: "tearing-down", Holds: func(v *adminpb.Volume) bool { return len(v.GetTeardowns()) > 0 }},
	{Name: "busy", Holds: func(v *adminpb.Volume) bool { return v.GetOperation().GetState() == "running" }},
	{Name: "stuck", Holds: func(v *adminpb.Volume) bool {
		return v.GetOperation().GetState() == "failed" || v.GetOperation().GetLastError() != ""
	}},
}

// phaseSelector is the flag --phase.
func phaseSelector[R any](valid []string, of func(R) string) listing.Selector[R] {
	return listing.Selector[R]{Flag: "phase", Usage: "only what is in this `phase`: " + strings.Join(valid, ", "), Valid: valid,
		Of: func(r R) []string { return []string{of(r)} }}
}

// namespaceSelector is the flag --namespace, which kubectl has too. A volume without a claim is in none.
func namespaceSelector[R any](claim func(R) *adminpb.Claim) listing.Selector[R] {
	return listing.Selector[R]{Flag: "namespace", Shorthand: "n", Usage: "only of volumes whose claim is in this `namespace`",
		Of: func(r R) []string { return []string{claim(r).GetNamespace()} }}
}

// atIndex is the line below a list.
func atIndex[A interface{ GetIndex() uint64 }](a A) []string {
	return []string{fmt.Sprintf("at index %d", a.GetIndex())}
}

// volumeNodes are the nodes that have something of a volume, or owe a teardown.
func volumeNodes(v *adminpb.Volume) []string {
	return slices.Concat(replicaNodes(v), mapSlice(v.GetPublications(), (*adminpb.Publication).GetNode), mapSlice(v.GetTeardowns(), (*adminpb.Teardown).GetNode))
}

func replicaNodes(v *adminpb.Volume) []string {
	return mapSlice(v.GetReplicas(), (*adminpb.Replica).GetNode)
}

func volumePools(v *adminpb.Volume) []string {
	return mapSlice(v.GetReplicas(), (*adminpb.Replica).GetPoolId)
}

// isDegraded tells whether a replicated volume has fewer replicas that are up to date, by the log, than it should have.
func isDegraded(v *adminpb.Volume) bool {
	if v.GetReplication() == nil {
		return false
	}
	whole := uint32(0)
	for _, r := range v.GetReplicas() {
		if r.GetUpToDate() && r.GetState() != "gone" {
			whole++
		}
	}
	return whole < v.GetReplication().GetWanted()
}

// replicasCell shows where each replica is, and what it is.
func replicasCell(v *adminpb.Volume) any {
	return strings.Join(mapSlice(v.GetReplicas(), func(r *adminpb.Replica) string {
		cell := r.GetNode() + "/" + r.GetPoolId() + " " + r.GetState()
		if v.GetReplication() != nil && r.GetState() != "gone" {
			cell += ", " + logCell(r)
		}
		return cell
	}), "; ")
}

// deviceCell is the device of a replicated volume on its hosts.
func deviceCell(r *adminpb.Replication) any {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("/dev/drbd%d", r.GetMinor())
}

func epochsCell(v *adminpb.Volume) any {
	return strings.Join(mapSlice(v.GetPublications(), func(p *adminpb.Publication) string { return p.GetNode() + " " + p.GetEpoch() }), ",")
}

func teardownsCell(v *adminpb.Volume) any {
	return strings.Join(mapSlice(v.GetTeardowns(), func(t *adminpb.Teardown) string { return t.GetNode() + " " + t.GetEpoch() }), ",")
}

// operationCell shows an operation that is under way or failed; empty where there is none.
func operationCell(o *adminpb.Operation) any {
	if o == nil {
		return ""
	}
	return strings.TrimSpace(o.GetId() + " " + o.GetKind() + " " + o.GetState() + " " + o.GetStep())
}

// indexCell is empty for the index 0, where nothing happened yet.
func indexCell(index uint64) any {
	if index == 0 {
		return ""
	}
	return index
}
