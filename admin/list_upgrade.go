package admin

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// UpgradeList lists which feature level each controller and node understands.
var UpgradeList listing.Lister = upgradeList

// understandingRow is what a controller or a node understands.
type understandingRow struct {
	*adminpb.Understanding

	role, field, id string
}

// understandingRows numbers those of one name: a controller that was wiped is there beside the one that it was.
func understandingRows(a *adminpb.UpgradeResponse) (rows []understandingRow) {
	seen := map[string]int{}
	add := func(all []*adminpb.Understanding, role, field string) {
		for _, u := range all {
			name := role + "/" + u.GetId()
			seen[name]++
			rows = append(rows, understandingRow{u, role, field, fmt.Sprint(name, "\x00", seen[name])})
		}
	}
	add(a.GetMembers(), "controller", "members")
	add(a.GetNodes(), "node", "nodes")
	return rows
}

var upgradeList = &listing.List[*adminpb.UpgradeResponse, understandingRow]{
	Fields:  []string{"members", "nodes"},
	FieldOf: func(u understandingRow) string { return u.field },
	Rows:    understandingRows,
	Item:    func(u understandingRow) proto.Message { return u.Understanding },
	ID:      func(u understandingRow) string { return u.id },
	Columns: []listing.Column[understandingRow]{
		{Name: "WHO", Cell: func(u understandingRow) any { return u.role }},
		{Name: "ID", Cell: func(u understandingRow) any { return u.GetId() }},
		{Name: "VERSION", Cell: func(u understandingRow) any { return u.GetVersion() }},
		{Name: "LEVEL", Cell: func(u understandingRow) any { return levelCell(u.Understanding) }, Key: func(u understandingRow) any {
			if u.GetFeatureLevel() == 0 {
				return ""
			}
			return u.GetFeatureLevel()
		}},
		{Name: "MISSING", Cell: func(u understandingRow) any { return u.GetMissing() }},
	},
	Selectors: []listing.Selector[understandingRow]{
		{Flag: "role", Usage: "only who has this `role`: controller, node", Valid: []string{"controller", "node"}, Of: func(u understandingRow) []string { return []string{u.role} }},
		{Flag: "node", Usage: "only `node`", Of: func(u understandingRow) []string {
			if u.role != "node" {
				return nil
			}
			return []string{u.GetId()}
		}},
		listing.Conditions(
			listing.Condition[understandingRow]{Name: "missing", Holds: func(u understandingRow) bool { return u.GetMissing() != "" }},
			listing.Condition[understandingRow]{Name: "unknown", Holds: func(u understandingRow) bool { return u.GetFeatureLevel() == 0 }},
		),
	},
	Foot: func(a *adminpb.UpgradeResponse) []string {
		return append(mapSlice(a.GetWarnings(), func(warning string) string { return "WARNING: " + warning }),
			fmt.Sprintf("%s (index %d)", a.GetSummary(), a.GetIndex()))
	},
}

func levelCell(u *adminpb.Understanding) string {
	if u.GetFeatureLevel() == 0 {
		return "unknown"
	}
	return fmt.Sprint(u.GetFeatureLevel())
}
