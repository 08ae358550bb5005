package admin

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// AuditList lists what hosts hold against what the log says, and which hosts could not be asked.
var AuditList listing.Lister = auditList

// auditRow is something that an audit found, or with unknown a host that could not be asked.
type auditRow struct {
	*adminpb.Finding

	finding, field string
	unknown        *adminpb.Unknown
}

// auditFindings are what an audit says of a thing, and the field of the answer that has those.
var (
	auditFindings = []string{"orphan", "missing", "wrong", "pending", "unknown"}
	auditFields   = []string{"orphans", "missing", "wrong", "pending", "unknown"}
)

var auditKinds = []string{kindImage, kindUnfinished, kindLoop, kindMount, kindSnapshot, kindResource, kindMapping, kindHeader, kindBackup}

var auditList = &listing.List[*adminpb.AuditResponse, auditRow]{
	Fields:  auditFields,
	FieldOf: func(r auditRow) string { return r.field },
	Rows:    auditRows,
	Item: func(r auditRow) proto.Message {
		if r.unknown != nil {
			return r.unknown
		}
		return r.Finding
	},
	ID: func(r auditRow) string {
		return strings.Join([]string{r.finding, r.node(), r.GetKind(), r.GetId(), r.GetPath(), r.detail()}, "\x00")
	},
	Columns: []listing.Column[auditRow]{
		{Name: "FINDING", Cell: func(r auditRow) any { return r.finding }},
		{Name: "NODE", Cell: func(r auditRow) any { return r.node() }},
		{Name: "KIND", Cell: func(r auditRow) any { return r.GetKind() }},
		{Name: "ID", Cell: func(r auditRow) any { return r.GetId() }},
		{Name: "PATH", Cell: func(r auditRow) any { return r.GetPath() }},
		{Name: "DETAIL", Cell: func(r auditRow) any { return r.detail() }},
	},
	Selectors: []listing.Selector[auditRow]{
		{Flag: "finding", Usage: "only this `finding`: " + strings.Join(auditFindings, ", "), Valid: auditFindings, Of: func(r auditRow) []string { return []string{r.finding} }},
		{Flag: "node", Usage: "only what is on `node`", Of: func(r auditRow) []string { return []string{r.node()} }},
		{Flag: "kind", Usage: "only things of this `kind`: " + strings.Join(auditKinds, ", "), Valid: auditKinds, Of: func(r auditRow) []string { return []string{r.GetKind()} }},
	},
	Foot: func(a *adminpb.AuditResponse) []string {
		return []string{fmt.Sprintf("%d replicas and snapshots checked at index %d: %s, %d missing, %d wrong, %d pending, %s not asked", a.GetChecked(), a.GetIndex(),
			CountOf(len(a.GetOrphans()), "orphan"), len(a.GetMissing()), len(a.GetWrong()), len(a.GetPending()), CountOf(len(a.GetUnknown()), "host"))}
	},
}

func (r auditRow) node() string {
	if r.unknown != nil {
		return r.unknown.GetNode()
	}
	return r.GetNode()
}

func (r auditRow) detail() string {
	if r.unknown != nil {
		return r.unknown.GetDetail()
	}
	return r.GetDetail()
}

func auditRows(a *adminpb.AuditResponse) (rows []auditRow) {
	for i, found := range [][]*adminpb.Finding{a.GetOrphans(), a.GetMissing(), a.GetWrong(), a.GetPending()} {
		for _, f := range found {
			rows = append(rows, auditRow{Finding: f, finding: auditFindings[i], field: auditFields[i]})
		}
	}
	for _, u := range a.GetUnknown() {
		rows = append(rows, auditRow{finding: "unknown", field: "unknown", unknown: u})
	}
	return rows
}
