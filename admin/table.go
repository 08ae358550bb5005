package admin

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// printTable writes the fields that are needed most; JSON and YAML have all of them.
func printTable(w io.Writer, answer proto.Message) error {
	out := newTable(w)
	switch a := answer.(type) {
	case *adminpb.StatusResponse:
		statusTable(out, a)
	case *adminpb.VolumesResponse:
		volumesTable(out, a)
	case *adminpb.SnapshotsResponse:
		snapshotsTable(out, a)
	case *adminpb.GroupSnapshotsResponse:
		groupsTable(out, a)
	case *adminpb.NodesResponse:
		nodesTable(out, a)
	case *adminpb.OperationsResponse:
		operationsTable(out, a)
	case *adminpb.AuditResponse:
		auditTable(out, a)
	case *adminpb.PlanResponse:
		planTable(out, a)
	case *adminpb.UpgradeResponse:
		upgradeTable(out, a)
	case *adminpb.MembersResponse:
		membersTable(out, a)
	case *adminpb.MemberPlanResponse:
		memberPlanTable(out, a)
	case *adminpb.ChangeResponse:
		row(out, fmt.Sprintf("%s (index %d)", a.GetMessage(), a.GetIndex()))
	case *adminpb.HistoryHeader:
		row(out, fmt.Sprintf("# %s knows the log from index %d to %d", a.GetMember(), a.GetKnownFrom(), a.GetIndex()))
	case *adminpb.HistoryEntry:
		historyLine(out, a)
	default:
		return printYAML(w, answer)
	}
	return out.Flush()
}

func newTable(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 4, 2, ' ', 0) }

// tabulate writes one table.
func tabulate(w io.Writer, fill func(io.Writer)) error {
	out := newTable(w)
	fill(out)
	return out.Flush()
}

func row(w io.Writer, cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = cmp.Or(fmt.Sprint(c), "-")
	}
	fmt.Fprintln(w, strings.Join(text, "\t"))
}

func statusTable(w io.Writer, a *adminpb.StatusResponse) {
	fmt.Fprintf(w, "cluster %s, incarnation %d, feature level %d\n", cmp.Or(a.GetClusterId(), "unknown"), a.GetIncarnation(), a.GetFeatureLevel())
	fmt.Fprintf(w, "leader %s, term %d, index %d; %s, %s, %s\n\n", cmp.Or(a.GetLeader(), "unknown"), a.GetTerm(), a.GetIndex(),
		CountOf(a.GetVolumes(), "volume"), CountOf(a.GetSnapshots(), "snapshot"), CountOf(a.GetOperations(), "operation"))
	row(w, "ID", "ROLE", "APPLIED", "HASH", "AT", "REACHABLE", "MEMBER", "DETAIL")
	for _, m := range a.GetMembers() {
		hash := fmt.Sprintf("%x", m.GetStateHash())
		row(w, m.GetId(), m.GetRole(), m.GetAppliedIndex(), hash[:min(12, len(hash))], m.GetHashIndex(),
			m.GetReachable(), m.GetMemberId(), m.GetDetail())
	}
}

func volumesTable(w io.Writer, a *adminpb.VolumesResponse) {
	row(w, "ID", "NAME", "SIZE", "PHASE", "FORMAT", "NODES", "PUBLISHED", "SOURCE", "LIMITS", "CLAIM", "CONDITION")
	for _, v := range a.GetVolumes() {
		nodes := mapSlice(v.GetReplicas(), func(r *adminpb.Replica) string { return r.GetNode() })
		row(w, v.GetId(), v.GetName(), formatSize(v.GetSizeBytes()), v.GetPhase(), cmp.Or(v.GetFsType(), v.GetFormat()),
			strings.Join(nodes, ","), strings.Join(mapSlice(v.GetPublications(), publicationCell), ","),
			cmp.Or(v.GetSource().GetSnapshot(), v.GetSource().GetVolume()), limitsCell(v.GetLimits()),
			claimCell(v.GetClaim()), cmp.Or(v.GetReason(), v.GetCondition()))
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}

func claimCell(c *adminpb.Claim) string {
	if c.GetNamespace() == "" {
		return c.GetName()
	}
	return c.GetNamespace() + "/" + c.GetName()
}

func publicationCell(p *adminpb.Publication) string {
	use := "published"
	switch {
	case len(p.GetTargets()) > 0:
		use = CountOf(len(p.GetTargets()), "target")
	case p.GetStaged():
		use = "staged"
	}
	return p.GetNode() + " " + use
}

func nodesTable(w io.Writer, a *adminpb.NodesResponse) {
	row(w, "NODE", "STATE", "SITE", "VOLUMES", "PUBLISHED", "POOL", "CAPACITY", "FREE", "RESERVED", "HOST", "VERSION", "DRBD", "POOL CONDITION")
	for _, n := range a.GetNodes() {
		state := n.GetState()
		if !n.GetAdopted() && state != "lost" {
			state += ", adoption"
		}
		if n.GetCordoned() {
			state += ", cordoned"
		}
		if n.GetNoNewReplicas() {
			state += ", no new replicas"
		}
		for _, p := range n.GetPools() {
			row(w, n.GetId(), state, n.GetSite(), n.GetVolumes(), n.GetPublications(), p.GetId(),
				formatSize(p.GetCapacityBytes()), freeCell(p), formatSize(p.GetReservedBytes()), n.GetHostId(), n.GetVersion(), n.GetReplicationVersion(), p.GetCondition())
		}
		if len(n.GetPools()) == 0 {
			row(w, n.GetId(), state, n.GetSite(), n.GetVolumes(), n.GetPublications(), "", "", "", "", n.GetHostId(), n.GetVersion(), n.GetReplicationVersion(), "")
		}
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}

// freeCell shows the free space of a pool, empty when its host did not report it.
func freeCell(p *adminpb.Pool) string {
	if !p.GetMeasured() {
		return ""
	}
	return formatSize(p.GetFreeBytes())
}

func operationsTable(w io.Writer, a *adminpb.OperationsResponse) {
	row(w, "ID", "KIND", "STATE", "SUBJECT", "NAME", "CLAIM", "NODES", "STEP", "COPIED", "ATTEMPTS", "STARTED", "LAST ERROR")
	for _, o := range a.GetOperations() {
		row(w, o.GetId(), o.GetKind(), o.GetState(), cmp.Or(o.GetSnapshot(), o.GetGroup(), o.GetVolume()),
			cmp.Or(o.GetName(), o.GetVolumeName()), claimCell(o.GetClaim()), strings.Join(o.GetNodes(), ","), o.GetStep(), copiedCell(o), o.GetAttempts(), o.GetStarted(), o.GetLastError())
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}

func auditTable(w io.Writer, a *adminpb.AuditResponse) {
	row(w, "FINDING", "NODE", "KIND", "ID", "PATH")
	for _, group := range []struct {
		name string
		list []*adminpb.Finding
	}{{"orphan", a.GetOrphans()}, {"missing", a.GetMissing()}, {"pending", a.GetPending()}} {
		for _, f := range group.list {
			row(w, group.name, f.GetNode(), f.GetKind(), f.GetId(), f.GetPath())
		}
	}
	for _, u := range a.GetUnknown() {
		row(w, "unknown", u.GetNode(), "", "", u.GetDetail())
	}
	fmt.Fprintf(w, "%d replicas and snapshots checked at index %d: %s, %d missing, %d pending, %s not asked\n", a.GetChecked(), a.GetIndex(),
		CountOf(len(a.GetOrphans()), "orphan"), len(a.GetMissing()), len(a.GetPending()), CountOf(len(a.GetUnknown()), "host"))
}

// historyLine writes one entry as one line; a stream's columns have fixed widths.
func historyLine(w io.Writer, e *adminpb.HistoryEntry) {
	if e.GetGap() {
		fmt.Fprintf(w, "%-8d up to %d is not known to this member: %s\n", e.GetIndex(), e.GetGapTo(), e.GetWhy())
		return
	}
	result := "ok"
	if rejected := e.GetOutcome().GetRejection(); rejected != nil {
		result = "rejected: " + rejected.GetMessage()
	} else if answer := e.GetOutcome().GetVerdict(); answer != 0 {
		result = enumView(answer.String(), "VERDICT_")
	}
	subject := strings.Join(slices.Concat(e.GetGroups(), e.GetSnapshots(), volumesCell(e)), ",")
	if e.GetNode() != "" {
		subject = strings.TrimSpace(subject + " @" + e.GetNode())
	}
	fmt.Fprintf(w, "%-8d %s  %-20s %-20s %s  %s%s\n", e.GetIndex(), e.GetAt(), e.GetActor(), e.GetKind(),
		cmp.Or(subject, "-"), outcomeFacts(e), result)
}

// volumesCell returns the entry's volumes, with the orchestrator's names for them.
func volumesCell(e *adminpb.HistoryEntry) []string {
	cells := slices.Clone(e.GetVolumes())
	for i, claim := range e.GetClaims() {
		if name := claimCell(claim); name != "" && i < len(cells) {
			cells[i] += " (" + name + ")"
		}
	}
	return cells
}

// outcomeFacts returns the kinds of a report's observations, one word each.
func outcomeFacts(e *adminpb.HistoryEntry) string {
	var out strings.Builder
	for _, o := range e.GetCommand().GetReport().GetObservations() {
		m := o.ProtoReflect()
		if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("fact")); field != nil {
			out.WriteString(string(field.Name()) + " ")
		}
	}
	return out.String()
}

// CountOf formats a number of things for people: "1 node", "2 nodes".
func CountOf[N int | uint32 | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// formatSize formats a number of bytes for people.
func formatSize(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + units[unit]
}
