package admin

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
)

// printTable writes the fields that are needed most; JSON and YAML have all of them.
func printTable(w io.Writer, answer proto.Message, view listing.View) error {
	out := newTable(w)
	switch a := answer.(type) {
	case *adminpb.StatusResponse:
		statusList.Table(out, a, view)
	case *adminpb.VolumesResponse:
		volumeList.Table(out, a, view)
	case *adminpb.SnapshotsResponse:
		snapshotList.Table(out, a, view)
	case *adminpb.GroupSnapshotsResponse:
		groupSnapshotList.Table(out, a, view)
	case *adminpb.VolumeGroupsResponse:
		volumeGroupList.Table(out, a, view)
	case *adminpb.NodesResponse:
		nodesList.Table(out, a, view)
	case *adminpb.FencesResponse:
		fenceList.Table(out, a, view)
	case *adminpb.OperationsResponse:
		operationList.Table(out, a, view)
	case *adminpb.AuditResponse:
		auditList.Table(out, a, view)
	case *adminpb.DoctorResponse:
		doctorList.Table(out, a, view)
	case *adminpb.PlanResponse:
		planTable(out, a)
	case *adminpb.LeaksResponse:
		leakList.Table(out, a, view)
	case *adminpb.UpgradeResponse:
		upgradeList.Table(out, a, view)
	case *adminpb.MembersResponse:
		memberList.Table(out, a, view)
	case *adminpb.DrainPlanResponse:
		drainList.Table(out, a, view)
	case *adminpb.AtRiskResponse:
		atRiskList.Table(out, a, view)
	case *adminpb.ToleranceResponse:
		toleranceList.Table(out, a, view)
	case *adminpb.RebootSafeResponse:
		rebootSafeTable(out, a)
	case *adminpb.OutOfServiceResponse:
		outOfServiceTable(out, a)
	case *adminpb.MemberPlanResponse:
		memberPlanTable(out, a)
	case *adminpb.CertificatesResponse:
		certificateList.Table(out, a, view)
	case *adminpb.RevocationPlanResponse:
		revocationPlanTable(out, a)
	case *adminpb.TokensResponse:
		tokenList.Table(out, a, view)
	case *adminpb.TokenPlanResponse:
		tokenPlanTable(out, a)
	case *adminpb.VolumeChangeResponse:
		volumeChangeTable(out, a)
	case *adminpb.ChangeResponse:
		row(out, fmt.Sprintf("%s (index %d)", a.GetMessage(), a.GetIndex()))
	case *adminpb.VerifyHistoryResponse:
		verifyHistoryTable(out, a)
	case *adminpb.HistoryHeader:
		row(out, fmt.Sprintf("# %s knows the log from index %d to %d", a.GetMember(), a.GetKnownFrom(), a.GetIndex()))
	case *adminpb.HistoryEntry:
		historyLine(out, a)
	default:
		return printYAML(w, answer)
	}
	return out.Flush()
}

// tableWriter lets no text that comes from elsewhere command a terminal, wherever in a table or a line it stands.
type tableWriter struct{ *tabwriter.Writer }

func newTable(w io.Writer) tableWriter {
	return tableWriter{tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)}
}

// Write implements io.Writer. It is given whole lines.
func (t tableWriter) Write(p []byte) (int, error) {
	_, err := t.Writer.Write(bytes.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, p))
	return len(p), err
}

// tabulate writes one table.
func tabulate(w io.Writer, fill func(io.Writer)) error {
	out := newTable(w)
	fill(out)
	return out.Flush()
}

func row(w io.Writer, cells ...any) {
	text := make([]string, len(cells))
	for i, c := range cells {
		text[i] = cmp.Or(listing.OneLine(c), "-")
	}
	fmt.Fprintln(w, strings.Join(text, "\t"))
}

// historyLine writes one entry as one line; a stream's columns have fixed widths.
func historyLine(w io.Writer, e *adminpb.HistoryEntry) {
	if e.GetGap() {
		fmt.Fprintln(w, listing.OneLine(fmt.Sprintf("%-8d up to %d is not known to this member: %s", e.GetIndex(), e.GetGapTo(), e.GetWhy())))
		return
	}
	result := "ok"
	if rejected := e.GetOutcome().GetRejection(); rejected != nil {
		result = "rejected: " + rejected.GetMessage()
	} else if answer := e.GetOutcome().GetVerdict(); answer != 0 {
		result = enumView(answer.String(), "VERDICT_")
	}
	subject := strings.Join(slices.Concat(e.GetGroups(), e.GetSnapshots(), volumesCell(e)), ",")
	for _, node := range e.GetFencedNodes() {
		subject = strings.TrimSpace(subject + " @" + node)
	}
	if e.GetNode() != "" {
		subject = strings.TrimSpace(subject + " @" + e.GetNode())
	}
	if sentence := sentenceOf(e); sentence != "" {
		result = sentence + ": " + result
	}
	fmt.Fprintln(w, listing.OneLine(fmt.Sprintf("%-8d %s  %-20s %-20s %s  %s%s%s", e.GetIndex(), e.GetAt(), e.GetActor(), e.GetKind(),
		cmp.Or(subject, "-"), outcomeFacts(e), result, callCell(e.GetCommand().GetCall()))))
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

func planTable(w io.Writer, a *adminpb.PlanResponse) {
	row(w, "STATE", "ACTION", "VOLUME", "NAME", "NODE", "DETAIL")
	for _, s := range a.GetSteps() {
		row(w, s.GetState(), s.GetAction(), cmp.Or(s.GetVolume(), s.GetSnapshot()), cmp.Or(s.GetVolumeName(), s.GetSnapshotName()), s.GetNode(), s.GetDetail())
	}
	if a.GetMore() > 0 {
		fmt.Fprintf(w, "and %s more\n", groupDigits(a.GetMore()))
	}
	fmt.Fprintf(w, "%s (at index %d)\n", listing.OneLine(a.GetSummary()), a.GetIndex())
	planMark(w, a.GetSummary(), a.GetSteps())
}
