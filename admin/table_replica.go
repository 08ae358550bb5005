package admin

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// PrintReplicas writes the replicas of volumes: as a table one line for each replica of a replicated
// volume, as JSON or YAML the complete answer.
func PrintReplicas(w io.Writer, format string, answer *adminpb.VolumesResponse) error {
	if format == "table" {
		return tabulate(w, func(out io.Writer) { replicasTable(out, answer) })
	}
	return Print(w, format, proto.Message(answer))
}

func replicasTable(w io.Writer, a *adminpb.VolumesResponse) {
	row(w, "VOLUME", "NAME", "NODE", "STATE", "ROLE", "LOG", "DISK", "CONNECTION", "PERCENT", "GENERATION", "MINOR", "PORT", "PROTOCOL", "CONDITION")
	for _, v := range a.GetVolumes() {
		common := v.GetReplication()
		for _, r := range v.GetReplicas() {
			if common == nil || r.GetState() == "gone" {
				continue
			}
			row(w, v.GetId(), v.GetName(), r.GetNode(), r.GetState(), r.GetRole(), logCell(r), cmp.Or(r.GetDisk(), "unknown"), connectionCell(r),
				percentCell(r), common.GetGeneration(), common.GetMinor(), common.GetPort(), common.GetProtocol(), v.GetCondition())
		}
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}

// logCell shows what the log records of a replica's content (S5).
func logCell(r *adminpb.Replica) string {
	switch {
	case r.GetOutdated():
		return "outdated"
	case r.GetUpToDate():
		return "up to date"
	}
	return "not up to date"
}

func connectionCell(r *adminpb.Replica) string {
	if r.GetSuspended() {
		return r.GetConnection() + ", frozen"
	}
	return r.GetConnection()
}

// percentCell shows the progress of a resynchronisation or verification, empty when none runs.
func percentCell(r *adminpb.Replica) string {
	if slices.Contains([]string{"sync_source", "sync_target", "verifying"}, r.GetConnection()) {
		return fmt.Sprintf("%d %%", r.GetPercent())
	}
	return ""
}

func planTable(w io.Writer, a *adminpb.PlanResponse) {
	row(w, "STATE", "ACTION", "VOLUME", "NAME", "NODE", "DETAIL")
	for _, s := range a.GetSteps() {
		row(w, s.GetState(), s.GetAction(), s.GetVolume(), s.GetVolumeName(), s.GetNode(), s.GetDetail())
	}
	if a.GetMore() > 0 {
		fmt.Fprintf(w, "and %s more\n", groupDigits(a.GetMore()))
	}
	fmt.Fprintf(w, "%s (at index %d)\n", a.GetSummary(), a.GetIndex())
}
