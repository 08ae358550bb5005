package admin

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// OperationList lists operations.
var OperationList listing.Lister = operationList

var operationList = &listing.List[*adminpb.OperationsResponse, *adminpb.Operation]{
	Field: "operations",
	Rows:  (*adminpb.OperationsResponse).GetOperations,
	Item:  func(o *adminpb.Operation) proto.Message { return o },
	ID:    (*adminpb.Operation).GetId,
	Columns: []listing.Column[*adminpb.Operation]{
		{Name: "ID", Cell: func(o *adminpb.Operation) any { return o.GetId() }},
		{Name: "KIND", Cell: func(o *adminpb.Operation) any { return o.GetKind() }},
		{Name: "STATE", Cell: func(o *adminpb.Operation) any { return o.GetState() }},
		{Name: "SUBJECT", Cell: func(o *adminpb.Operation) any { return cmp.Or(o.GetSnapshot(), o.GetGroup(), o.GetVolume()) }},
		{Name: "NAME", Cell: func(o *adminpb.Operation) any { return cmp.Or(o.GetName(), o.GetVolumeName()) }},
		{Name: "CLAIM", Cell: func(o *adminpb.Operation) any { return claimCell(o.GetClaim()) }},
		{Name: "NODES", Cell: func(o *adminpb.Operation) any { return strings.Join(o.GetNodes(), ",") }},
		{Name: "STEP", Cell: func(o *adminpb.Operation) any { return o.GetStep() }},
		{Name: "COPIED", Cell: func(o *adminpb.Operation) any { return copiedCell(o) }, Key: copiedKey},
		{Name: "ATTEMPTS", Cell: func(o *adminpb.Operation) any { return o.GetAttempts() }},
		{Name: "STARTED", Cell: func(o *adminpb.Operation) any { return o.GetStarted() }},
		{Name: "AGE", Wide: true, Since: (*adminpb.Operation).GetStarted},
		{Name: "DEADLINE", Wide: true, Cell: func(o *adminpb.Operation) any { return o.GetDeadline() }},
		{Name: "VOLUME", Wide: true, Cell: func(o *adminpb.Operation) any { return o.GetVolume() }},
		{Name: "LAST ERROR", Cell: func(o *adminpb.Operation) any { return o.GetLastError() }},
	},
	Selectors: []listing.Selector[*adminpb.Operation]{
		{Flag: "node", Usage: "only operations on `node`", Of: (*adminpb.Operation).GetNodes},
		{Flag: "kind", Usage: "only operations of this `kind`: " + strings.Join(operationKinds, ", "), Valid: operationKinds,
			Of: func(o *adminpb.Operation) []string { return []string{o.GetKind()} }},
		{Flag: "state", Usage: "only operations in this `state`: running, failed, cancelled", Valid: []string{"running", "failed", "cancelled"},
			Of: func(o *adminpb.Operation) []string { return []string{o.GetState()} }},
		listing.Conditions(
			listing.Condition[*adminpb.Operation]{Name: "failing", Holds: func(o *adminpb.Operation) bool { return o.GetLastError() != "" }},
			listing.Condition[*adminpb.Operation]{Name: "retried", Holds: func(o *adminpb.Operation) bool { return o.GetAttempts() > 1 }},
			listing.Condition[*adminpb.Operation]{Name: "copying", Holds: func(o *adminpb.Operation) bool { return o.GetTotalBytes() > 0 }},
		),
	},
	Foot: atIndex[*adminpb.OperationsResponse],
}

var operationKinds = []string{"create", "delete", "teardown", "snapshot", "expand", "modify", "replicate"}

func copiedKey(o *adminpb.Operation) any {
	if o.GetTotalBytes() == 0 {
		return ""
	}
	return float64(o.GetDoneBytes()) / float64(o.GetTotalBytes())
}
