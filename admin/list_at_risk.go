package admin

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// AtRiskList lists what would be worse off if something stopped.
var AtRiskList listing.Lister = atRiskList

// riskRow is a volume, a publication or a snapshot.
type riskRow struct {
	item                                 proto.Message
	impact, kind, id, name, node, detail string
}

var riskKinds = []string{"volume", "publication", "snapshot"}

var atRiskList = &listing.List[*adminpb.AtRiskResponse, riskRow]{
	Fields:  []string{"volumes", "publications", "snapshots"},
	FieldOf: func(r riskRow) string { return r.kind + "s" },
	Rows:    riskRows,
	Item:    func(r riskRow) proto.Message { return r.item },
	ID:      func(r riskRow) string { return strings.Join([]string{r.kind, r.id, r.node}, "\x00") },
	Columns: []listing.Column[riskRow]{
		{Name: "IMPACT", Cell: func(r riskRow) any { return r.impact }},
		{Name: "KIND", Cell: func(r riskRow) any { return r.kind }},
		{Name: "ID", Cell: func(r riskRow) any { return r.id }},
		{Name: "NAME", Cell: func(r riskRow) any { return r.name }},
		{Name: "NODE", Cell: func(r riskRow) any { return r.node }},
		{Name: "DETAIL", Cell: func(r riskRow) any { return r.detail }},
	},
	Selectors: []listing.Selector[riskRow]{
		{Flag: "kind", Usage: "only of this `kind`: " + strings.Join(riskKinds, ", "), Valid: riskKinds, Of: func(r riskRow) []string { return []string{r.kind} }},
		{Flag: "node", Usage: "only publications to, and snapshots on, `node`", Of: func(r riskRow) []string { return []string{r.node} }},
		listing.Conditions(impact("lost"), impact("frozen"), impact("unavailable"), impact("degraded")),
	},
	Foot: atRiskFoot,
}

func impact(name string) listing.Condition[riskRow] {
	return listing.Condition[riskRow]{Name: name, Holds: func(r riskRow) bool { return r.impact == name }}
}

func riskRows(a *adminpb.AtRiskResponse) []riskRow {
	rows := mapSlice(a.GetVolumes(), func(v *adminpb.VolumeRisk) riskRow {
		detail := v.GetReason()
		if v.GetUsed() {
			detail += " (in use)"
		}
		return riskRow{v, v.GetImpact(), "volume", v.GetVolume(), v.GetName(), "", detail}
	})
	rows = append(rows, mapSlice(a.GetPublications(), func(p *adminpb.PublicationRisk) riskRow {
		return riskRow{p, "ends", "publication", p.GetVolume(), p.GetName(), p.GetNode(), ""}
	})...)
	return append(rows, mapSlice(a.GetSnapshots(), func(s *adminpb.SnapshotRisk) riskRow {
		return riskRow{s, "only there", "snapshot", s.GetSnapshot(), s.GetName(), s.GetNode(), "of volume " + s.GetSource()}
	})...)
}

func atRiskFoot(a *adminpb.AtRiskResponse) (lines []string) {
	if a.GetMore() > 0 {
		lines = append(lines, fmt.Sprintf("and %s more", groupDigits(a.GetMore())))
	}
	stopped := strings.Join(append(append([]string{}, a.GetNodes()...), a.GetMembers()...), ", ")
	return append(lines, fmt.Sprintf("without %s: %s (at index %d)", stopped, listing.OneLine(a.GetSummary()), a.GetIndex()))
}
