package admin

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// LeakList lists what an orchestrator's list and the log do not both have.
var LeakList listing.Lister = leakList

// leakRow is a leak, or what is too young to be one.
type leakRow struct {
	*adminpb.Leak

	young bool
}

var leakKinds = []string{"leak", "leaked-snapshot", "lost", "lost-snapshot", "attached-only", "published-only"}

var leakList = &listing.List[*adminpb.LeaksResponse, leakRow]{
	Fields: []string{"found", "young"},
	FieldOf: func(r leakRow) string {
		if r.young {
			return "young"
		}
		return "found"
	},
	Rows: func(a *adminpb.LeaksResponse) []leakRow {
		return append(mapSlice(a.GetFound(), func(l *adminpb.Leak) leakRow { return leakRow{l, false} }),
			mapSlice(a.GetYoung(), func(l *adminpb.Leak) leakRow { return leakRow{l, true} })...)
	},
	Item: func(r leakRow) proto.Message { return r.Leak },
	ID: func(r leakRow) string {
		return strings.Join([]string{r.GetKind(), r.GetId(), r.GetRecord(), strings.Join(r.GetNodes(), ",")}, "\x00")
	},
	Columns: []listing.Column[leakRow]{
		{Name: "KIND", Cell: func(r leakRow) any { return r.GetKind() }},
		{Name: "ID", Cell: func(r leakRow) any { return r.GetId() }},
		{Name: "NAME", Cell: func(r leakRow) any { return r.GetName() }},
		{Name: "RECORD", Cell: func(r leakRow) any { return r.GetRecord() }},
		{Name: "CLAIM", Cell: func(r leakRow) any { return r.GetClaim() }},
		{Name: "SIZE", Cell: func(r leakRow) any { return knownSize(r.GetSizeBytes()) }, Key: known(func(r leakRow) int64 { return r.GetSizeBytes() })},
		{Name: "NODES", Cell: func(r leakRow) any { return strings.Join(r.GetNodes(), ",") }},
		{Name: "MADE", Cell: func(r leakRow) any { return r.GetMade() }},
		{Name: "BY", Cell: func(r leakRow) any { return r.GetMadeBy() }},
		{Name: "LAST USE", Cell: func(r leakRow) any { return r.GetLastUse() }},
		{Name: "REMEDY", Cell: func(r leakRow) any { return r.remedy() }},
	},
	Selectors: []listing.Selector[leakRow]{
		{Flag: "kind", Usage: "only of this `kind`: " + strings.Join(leakKinds, ", "), Valid: leakKinds, Of: func(r leakRow) []string { return []string{r.GetKind()} }},
		{Flag: "node", Usage: "only what is on, or attached to, `node`", Of: func(r leakRow) []string { return r.GetNodes() }},
		listing.Conditions(
			listing.Condition[leakRow]{Name: "counted", Holds: func(r leakRow) bool { return !r.young }},
			listing.Condition[leakRow]{Name: "young", Holds: func(r leakRow) bool { return r.young }},
		),
	},
	Foot: func(a *adminpb.LeaksResponse) []string {
		return append([]string{
			fmt.Sprintf("%d compared, %d found", a.GetChecked(), len(a.GetFound())),
			"not counted: volumes that operators made, and what is too young or of unknown age",
		}, mapSlice(a.GetNotCompared(), func(what string) string { return "not compared: " + what })...)
	},
}

// remedy is what ends it, or why it is no finding.
func (r leakRow) remedy() string {
	switch {
	case !r.young:
		return cmp.Or(r.GetRemedy(), r.GetDetail())
	case r.GetMade() == "":
		return cmp.Or(r.GetRemedy(), "not known when it was made: look at it before you remove it")
	}
	return cmp.Or(r.GetRemedy(), "too young to be in the list")
}

func knownSize(n int64) string {
	if n <= 0 {
		return ""
	}
	return formatSize(n)
}
