package admin

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// SnapshotList lists snapshots, KeptCopyList the copies that hosts keep of replicas that lost, and GroupSnapshotList group
// snapshots.
var (
	SnapshotList      listing.Lister = snapshotList
	KeptCopyList      listing.Lister = keptCopyList
	GroupSnapshotList listing.Lister = groupSnapshotList
)

var snapshotList = &listing.List[*adminpb.SnapshotsResponse, *adminpb.Snapshot]{
	Field: "snapshots",
	Rows:  (*adminpb.SnapshotsResponse).GetSnapshots,
	Item:  func(s *adminpb.Snapshot) proto.Message { return s },
	ID:    (*adminpb.Snapshot).GetId,
	Columns: []listing.Column[*adminpb.Snapshot]{
		{Name: "ID", Cell: func(s *adminpb.Snapshot) any { return s.GetId() }},
		{Name: "NAME", Cell: func(s *adminpb.Snapshot) any { return s.GetName() }},
		{Name: "SOURCE", Cell: func(s *adminpb.Snapshot) any { return s.GetSource() }},
		{Name: "SIZE", Cell: snapshotSizeCell, Key: snapshotSizeKey},
		{Name: "PHASE", Cell: func(s *adminpb.Snapshot) any { return s.GetPhase() }},
		{Name: "CUT", Cell: func(s *adminpb.Snapshot) any { return s.GetCut() }},
		{Name: "AGE", Wide: true, Since: (*adminpb.Snapshot).GetCut},
		{Name: "NODE", Cell: func(s *adminpb.Snapshot) any { return s.GetNode() }},
		{Name: "GROUP", Cell: func(s *adminpb.Snapshot) any { return s.GetGroup() }},
		{Name: "POOL", Wide: true, Cell: func(s *adminpb.Snapshot) any { return s.GetPoolId() }},
		{Name: "HOST", Wide: true, Cell: func(s *adminpb.Snapshot) any { return s.GetHostId() }},
		{Name: "FS", Wide: true, Cell: func(s *adminpb.Snapshot) any { return s.GetFsType() }},
		{Name: "OPERATION", Wide: true, Cell: func(s *adminpb.Snapshot) any { return operationCell(s.GetOperation()) }},
		{Name: "CREATED", Wide: true, Cell: func(s *adminpb.Snapshot) any { return s.GetCreated() }},
		{Name: "MODIFIED", Wide: true, Cell: func(s *adminpb.Snapshot) any { return s.GetModified() }},
		{Name: "CONDITION", Cell: func(s *adminpb.Snapshot) any {
			return cmp.Or(missingCell(s, s.GetReason()), s.GetOperation().GetLastError())
		}},
	},
	Selectors: snapshotSelectors("only snapshots that `node` keeps"),
	Foot:      atIndex[*adminpb.SnapshotsResponse],
}

var keptCopyList = &listing.List[*adminpb.SnapshotsResponse, *adminpb.Snapshot]{
	Field: "snapshots",
	Rows:  (*adminpb.SnapshotsResponse).GetSnapshots,
	Item:  func(s *adminpb.Snapshot) proto.Message { return s },
	ID:    (*adminpb.Snapshot).GetId,
	Columns: []listing.Column[*adminpb.Snapshot]{
		{Name: "ID", Cell: func(s *adminpb.Snapshot) any { return s.GetId() }},
		{Name: "VOLUME", Cell: func(s *adminpb.Snapshot) any { return s.GetSource() }},
		{Name: "NODE", Cell: func(s *adminpb.Snapshot) any { return s.GetNode() }},
		{Name: "POOL", Cell: func(s *adminpb.Snapshot) any { return s.GetPoolId() }},
		{Name: "SIZE", Cell: snapshotSizeCell, Key: snapshotSizeKey},
		{Name: "PHASE", Cell: func(s *adminpb.Snapshot) any { return s.GetPhase() }},
		{Name: "CUT", Cell: func(s *adminpb.Snapshot) any { return s.GetCut() }},
		{Name: "AGE", Wide: true, Since: (*adminpb.Snapshot).GetCut},
		{Name: "GENERATION", Cell: func(s *adminpb.Snapshot) any { return s.GetKept().GetGeneration() }},
		{Name: "SUPERSEDED", Cell: func(s *adminpb.Snapshot) any { return cmp.Or(s.GetKept().GetSuperseded(), "no") }},
		{Name: "REASON", Cell: func(s *adminpb.Snapshot) any { return s.GetKept().GetReason() }},
		{Name: "HOST", Wide: true, Cell: func(s *adminpb.Snapshot) any { return s.GetHostId() }},
		{Name: "ATTACHMENT", Wide: true, Cell: func(s *adminpb.Snapshot) any { return s.GetKept().GetAttach() }},
		{Name: "OPERATION", Wide: true, Cell: func(s *adminpb.Snapshot) any { return operationCell(s.GetOperation()) }},
		{Name: "CREATED", Wide: true, Cell: func(s *adminpb.Snapshot) any { return s.GetCreated() }},
		{Name: "MODIFIED", Wide: true, Cell: func(s *adminpb.Snapshot) any { return s.GetModified() }},
		{Name: "CONDITION", Cell: func(s *adminpb.Snapshot) any { return cmp.Or(missingCell(s, ""), s.GetOperation().GetLastError()) }},
	},
	Selectors: snapshotSelectors("only copies that `node` keeps"),
	Foot:      atIndex[*adminpb.SnapshotsResponse],
}

func snapshotSelectors(ofNode string) []listing.Selector[*adminpb.Snapshot] {
	return []listing.Selector[*adminpb.Snapshot]{
		{Flag: "node", Usage: ofNode, Of: func(s *adminpb.Snapshot) []string { return []string{s.GetNode()} }},
		{Flag: "pool", Usage: "only what is in the `pool` with this id", Of: func(s *adminpb.Snapshot) []string { return []string{s.GetPoolId()} }},
		phaseSelector([]string{"cutting", "ready", "deleting", "failed"}, (*adminpb.Snapshot).GetPhase),
		listing.Conditions(
			listing.Condition[*adminpb.Snapshot]{Name: "abnormal", Holds: func(s *adminpb.Snapshot) bool {
				return s.GetMissing() || s.GetReason() != "" || s.GetOperation().GetLastError() != ""
			}},
			listing.Condition[*adminpb.Snapshot]{Name: "missing", Holds: (*adminpb.Snapshot).GetMissing},
			listing.Condition[*adminpb.Snapshot]{Name: "grouped", Holds: func(s *adminpb.Snapshot) bool { return s.GetGroup() != "" }},
			listing.Condition[*adminpb.Snapshot]{Name: "stuck", Holds: func(s *adminpb.Snapshot) bool {
				return s.GetOperation().GetState() == "failed" || s.GetOperation().GetLastError() != ""
			}},
		),
	}
}

func snapshotSizeCell(s *adminpb.Snapshot) any { return formatSize(s.GetSizeBytes()) }

func snapshotSizeKey(s *adminpb.Snapshot) any { return s.GetSizeBytes() }

// missingCell says that a snapshot is missing, else what is given.
func missingCell(s *adminpb.Snapshot, otherwise string) string {
	if s.GetMissing() {
		return "its host reports the file missing"
	}
	return otherwise
}

var groupSnapshotList = &listing.List[*adminpb.GroupSnapshotsResponse, *adminpb.GroupSnapshot]{
	Field: "groups",
	Rows:  (*adminpb.GroupSnapshotsResponse).GetGroups,
	Item:  func(g *adminpb.GroupSnapshot) proto.Message { return g },
	ID:    (*adminpb.GroupSnapshot).GetId,
	Columns: []listing.Column[*adminpb.GroupSnapshot]{
		{Name: "ID", Cell: func(g *adminpb.GroupSnapshot) any { return g.GetId() }},
		{Name: "NAME", Cell: func(g *adminpb.GroupSnapshot) any { return g.GetName() }},
		{Name: "MEMBERS", Cell: func(g *adminpb.GroupSnapshot) any { return len(g.GetMembers()) },
			Full: func(g *adminpb.GroupSnapshot) any { return strings.Join(g.GetMembers(), ",") }},
		{Name: "PHASE", Cell: func(g *adminpb.GroupSnapshot) any { return g.GetPhase() }},
		{Name: "ATTEMPT", Cell: func(g *adminpb.GroupSnapshot) any { return g.GetAttempt() }},
		{Name: "CUT", Cell: func(g *adminpb.GroupSnapshot) any { return g.GetCut() }},
		{Name: "AGE", Wide: true, Since: (*adminpb.GroupSnapshot).GetCut},
		{Name: "OPERATION", Wide: true, Cell: func(g *adminpb.GroupSnapshot) any { return operationCell(g.GetOperation()) }},
		{Name: "CREATED", Wide: true, Cell: func(g *adminpb.GroupSnapshot) any { return g.GetCreated() }},
		{Name: "MODIFIED", Wide: true, Cell: func(g *adminpb.GroupSnapshot) any { return g.GetModified() }},
		{Name: "CONDITION", Cell: func(g *adminpb.GroupSnapshot) any { return cmp.Or(g.GetReason(), g.GetOperation().GetLastError()) }},
	},
	Selectors: []listing.Selector[*adminpb.GroupSnapshot]{
		phaseSelector([]string{"freezing", "cutting", "ready", "aborting", "deleting"}, (*adminpb.GroupSnapshot).GetPhase),
		listing.Conditions(listing.Condition[*adminpb.GroupSnapshot]{Name: "abnormal", Holds: func(g *adminpb.GroupSnapshot) bool {
			return g.GetReason() != "" || g.GetOperation().GetLastError() != ""
		}}),
	},
	Foot: atIndex[*adminpb.GroupSnapshotsResponse],
}
