package admin

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// NodeList lists nodes, one row for each pool.
var NodeList listing.Lister = nodesList

// nodeRow is a node with one of its pools; p is nil for a node without one.
type nodeRow struct {
	n *adminpb.Node
	p *adminpb.Pool
}

func nodeRows(a *adminpb.NodesResponse) (rows []nodeRow) {
	for _, n := range a.GetNodes() {
		for _, p := range n.GetPools() {
			rows = append(rows, nodeRow{n, p})
		}
		if len(n.GetPools()) == 0 {
			rows = append(rows, nodeRow{n, nil})
		}
	}
	return rows
}

var nodesList = &listing.List[*adminpb.NodesResponse, nodeRow]{
	Field: "nodes",
	Rows:  nodeRows,
	Item:  func(x nodeRow) proto.Message { return x.n },
	ID:    func(x nodeRow) string { return x.n.GetId() },
	RowID: func(x nodeRow) string { return x.p.GetId() },
	Columns: []listing.Column[nodeRow]{
		{Name: "NODE", Cell: func(x nodeRow) any { return x.n.GetId() }},
		{Name: "STATE", Cell: func(x nodeRow) any { return nodeStateCell(x.n) }},
		{Name: "SITE", Cell: func(x nodeRow) any { return x.n.GetSite() }},
		{Name: "VOLUMES", Cell: func(x nodeRow) any { return x.n.GetVolumes() }},
		{Name: "PUBLISHED", Cell: func(x nodeRow) any { return x.n.GetPublications() }},
		{Name: "POOL", Cell: func(x nodeRow) any { return x.p.GetId() }},
		{Name: "CAPACITY", Cell: ofPool(poolSizeCell, (*adminpb.Pool).GetCapacityBytes), Key: ofPool(poolSizeKey, (*adminpb.Pool).GetCapacityBytes)},
		{Name: "FREE", Cell: func(x nodeRow) any { return freeCell(x.p) }, Key: freeKey},
		{Name: "RESERVED", Cell: ofPool(poolSizeCell, (*adminpb.Pool).GetReservedBytes), Key: ofPool(poolSizeKey, (*adminpb.Pool).GetReservedBytes)},
		{Name: "HOST", Cell: func(x nodeRow) any { return x.n.GetHostId() }},
		{Name: "VERSION", Cell: func(x nodeRow) any { return x.n.GetVersion() }},
		{Name: "DRBD", Cell: func(x nodeRow) any { return x.n.GetReplicationVersion() }},
		{Name: "BACKEND", Wide: true, Cell: func(x nodeRow) any { return x.p.GetBackend() }},
		{Name: "POOL VOLUMES", Wide: true, Cell: func(x nodeRow) any { return x.p.GetVolumes() }},
		{Name: "OVERCOMMIT", Wide: true, Cell: func(x nodeRow) any { return fmt.Sprintf("%d %%", x.p.GetOvercommitPercent()) }},
		{Name: "MIN FREE", Wide: true, Cell: ofPool(poolSizeCell, (*adminpb.Pool).GetMinFreeBytes), Key: ofPool(poolSizeKey, (*adminpb.Pool).GetMinFreeBytes)},
		{Name: "MAX VOLUMES", Wide: true, Cell: func(x nodeRow) any { return x.n.GetMaxVolumes() }},
		{Name: "REPLICATION ADDRESS", Wide: true, Cell: func(x nodeRow) any { return x.n.GetReplicationAddress() }},
		{Name: "ADDRESSES", Wide: true, Cell: func(x nodeRow) any { return strings.Join(x.n.GetAddresses(), ",") }},
		{Name: "LABELS", Wide: true, Cell: func(x nodeRow) any { return strings.Join(mapSlice(x.n.GetLabels(), labelCell), ",") }},
		{Name: "FENCE", Wide: true, Cell: func(x nodeRow) any { return x.n.GetFence() }},
		{Name: "MAINTENANCE", Wide: true, Cell: func(x nodeRow) any { return indexCell(x.n.GetMaintenance()) }},
		{Name: "BOOT", Wide: true, Cell: func(x nodeRow) any { return x.n.GetBootId() }},
		{Name: "POOL CONDITION", Cell: func(x nodeRow) any { return x.p.GetCondition() }},
	},
	Selectors: []listing.Selector[nodeRow]{
		{Flag: "node", Usage: "only this `node`", Of: func(x nodeRow) []string { return []string{x.n.GetId()} }},
		{Flag: "pool", Usage: "only the `pool` with this id", Of: func(x nodeRow) []string { return []string{x.p.GetId()} }},
		{Flag: "state", Usage: "only nodes in this `state`: reachable, unreachable, lost", Valid: []string{"reachable", "unreachable", "lost"},
			Of: func(x nodeRow) []string { return []string{x.n.GetState()} }},
		listing.Conditions(nodeConditions...),
	},
	Foot: atIndex[*adminpb.NodesResponse],
}

var nodeConditions = []listing.Condition[nodeRow]{
	{Name: "abnormal", Holds: func(x nodeRow) bool {
		return x.n.GetState() != "reachable" || x.n.GetFence() != "" || x.n.GetCertificate() != "" || x.p.GetCondition() != "" || !x.n.GetAdopted()
	}},
	{Name: "adoption", Holds: func(x nodeRow) bool { return !x.n.GetAdopted() && x.n.GetState() != "lost" }},
	{Name: "cordoned", Holds: func(x nodeRow) bool { return x.n.GetCordoned() }},
	{Name: "maintenance", Holds: func(x nodeRow) bool { return x.n.GetMaintenance() != 0 }},
	{Name: "fenced", Holds: func(x nodeRow) bool { return x.n.GetFence() != "" }},
	{Name: "certificate-expires", Holds: func(x nodeRow) bool { return x.n.GetCertificate() != "" }},
	{Name: "no-new-replicas", Holds: func(x nodeRow) bool { return x.n.GetNoNewReplicas() }},
	{Name: "pool-abnormal", Holds: func(x nodeRow) bool { return x.p.GetCondition() != "" }},
	{Name: "pool-absent", Holds: func(x nodeRow) bool { return strings.HasPrefix(x.p.GetCondition(), "absent") }},
	{Name: "pool-unmeasured", Holds: func(x nodeRow) bool { return x.p != nil && !x.p.GetMeasured() }},
}

// nodeStateCell is the state, and what else an operator recorded or should know of a node.
func nodeStateCell(n *adminpb.Node) string {
	cell := []string{n.GetState()}
	add := func(holds bool, text string) {
		if holds {
			cell = append(cell, text)
		}
	}
	add(!n.GetAdopted() && n.GetState() != "lost", "adoption")
	add(n.GetCordoned(), "cordoned")
	add(n.GetMaintenance() != 0, fmt.Sprintf("in maintenance since %d", n.GetMaintenance()))
	add(n.GetFence() != "", "fenced")
	add(n.GetNoNewReplicas(), "no new replicas")
	add(n.GetCertificate() != "", n.GetCertificate())
	return strings.Join(cell, ", ")
}

// ofPool makes the cell or the key of one size of a pool.
func ofPool(of func(*adminpb.Pool, int64) any, size func(*adminpb.Pool) int64) func(nodeRow) any {
	return func(r nodeRow) any { return of(r.p, size(r.p)) }
}

func poolSizeCell(p *adminpb.Pool, bytes int64) any {
	if p == nil {
		return ""
	}
	return formatSize(bytes)
}

func poolSizeKey(p *adminpb.Pool, bytes int64) any {
	if p == nil {
		return ""
	}
	return bytes
}

func freeKey(x nodeRow) any {
	if !x.p.GetMeasured() {
		return ""
	}
	return x.p.GetFreeBytes()
}

func labelCell(l *fsmpb.Label) string { return l.GetKey() + "=" + l.GetValue() }
