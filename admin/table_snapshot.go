package admin

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

func snapshotsTable(w io.Writer, a *adminpb.SnapshotsResponse) {
	row(w, "ID", "NAME", "SOURCE", "SIZE", "PHASE", "CUT", "NODE", "GROUP", "CONDITION")
	for _, s := range a.GetSnapshots() {
		condition := s.GetReason()
		if s.GetMissing() {
			condition = "its host reports the file missing"
		}
		row(w, s.GetId(), s.GetName(), s.GetSource(), formatSize(s.GetSizeBytes()), s.GetPhase(), s.GetCut(), s.GetNode(),
			s.GetGroup(), cmp.Or(condition, s.GetOperation().GetLastError()))
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}

func groupsTable(w io.Writer, a *adminpb.GroupSnapshotsResponse) {
	row(w, "ID", "NAME", "MEMBERS", "PHASE", "ATTEMPT", "CUT", "CONDITION")
	for _, g := range a.GetGroups() {
		row(w, g.GetId(), g.GetName(), len(g.GetMembers()), g.GetPhase(), g.GetAttempt(), g.GetCut(),
			cmp.Or(g.GetReason(), g.GetOperation().GetLastError()))
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}

// limitsCell shows the limits that are set.
func limitsCell(l *adminpb.Limits) string {
	var parts []string
	add := func(n uint64, text string) {
		if n > 0 {
			parts = append(parts, text)
		}
	}
	add(l.GetReadIops(), fmt.Sprintf("r %d/s", l.GetReadIops()))
	add(l.GetWriteIops(), fmt.Sprintf("w %d/s", l.GetWriteIops()))
	add(l.GetReadBytesPerSecond(), fmt.Sprintf("r %s/s", formatSize(int64(min(l.GetReadBytesPerSecond(), 1<<62)))))
	add(l.GetWriteBytesPerSecond(), fmt.Sprintf("w %s/s", formatSize(int64(min(l.GetWriteBytesPerSecond(), 1<<62)))))
	return strings.Join(parts, ",")
}

// copiedCell shows the progress of a copy.
func copiedCell(o *adminpb.Operation) string {
	if o.GetTotalBytes() == 0 {
		return ""
	}
	return formatSize(o.GetDoneBytes()) + " of " + formatSize(o.GetTotalBytes())
}

// PrintKept writes kept copies: as a table, as JSON or YAML.
func PrintKept(w io.Writer, format string, answer *adminpb.SnapshotsResponse) error {
	if format == "table" {
		return tabulate(w, func(out io.Writer) { keptTable(out, answer) })
	}
	return Print(w, format, proto.Message(answer))
}

func keptTable(w io.Writer, a *adminpb.SnapshotsResponse) {
	row(w, "ID", "VOLUME", "NODE", "POOL", "SIZE", "PHASE", "CUT", "GENERATION", "SUPERSEDED", "REASON", "CONDITION")
	for _, s := range a.GetSnapshots() {
		condition := ""
		if s.GetMissing() {
			condition = "its host reports the file missing"
		}
		k := s.GetKept()
		row(w, s.GetId(), s.GetSource(), s.GetNode(), s.GetPoolId(), formatSize(s.GetSizeBytes()), s.GetPhase(), s.GetCut(), k.GetGeneration(),
			cmp.Or(k.GetSuperseded(), "no"), k.GetReason(), cmp.Or(condition, s.GetOperation().GetLastError()))
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}
