package admin

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// DrainList lists what a drain of a node would do to storage.
var DrainList listing.Lister = drainList

var drainList = &listing.List[*adminpb.DrainPlanResponse, *adminpb.DrainFinding]{
	Field: "findings",
	Rows:  (*adminpb.DrainPlanResponse).GetFindings,
	Item:  func(f *adminpb.DrainFinding) proto.Message { return f },
	ID:    func(f *adminpb.DrainFinding) string { return f.GetKind() + "\x00" + f.GetAbout() },
	Columns: []listing.Column[*adminpb.DrainFinding]{
		{Name: "STATE", Cell: func(f *adminpb.DrainFinding) any { return f.GetState() }},
		{Name: "KIND", Cell: func(f *adminpb.DrainFinding) any { return f.GetKind() }},
		{Name: "ABOUT", Cell: func(f *adminpb.DrainFinding) any { return f.GetAbout() }},
		{Name: "NAME", Cell: func(f *adminpb.DrainFinding) any { return f.GetName() }},
		{Name: "PODS", Cell: func(f *adminpb.DrainFinding) any { return strings.Join(f.GetPods(), ", ") }},
		{Name: "WHAT", Cell: func(f *adminpb.DrainFinding) any { return f.GetText() }},
		{Name: "REMEDY", Cell: func(f *adminpb.DrainFinding) any { return f.GetRemedy() }},
	},
	Selectors: []listing.Selector[*adminpb.DrainFinding]{
		{Flag: "state", Usage: "only what is in this `state`: ok, waits, at-risk", Valid: []string{"ok", "waits", "at-risk"},
			Of: func(f *adminpb.DrainFinding) []string { return []string{f.GetState()} }},
	},
	Foot: func(a *adminpb.DrainPlanResponse) []string {
		return []string{fmt.Sprintf("%s (at index %d)", listing.OneLine(a.GetSummary()), a.GetIndex())}
	},
}
