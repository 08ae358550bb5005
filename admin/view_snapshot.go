package admin

import (
	"cmp"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

func snapshotView(snap *fsm.Snapshot) *adminpb.Snapshot {
	return &adminpb.Snapshot{
		Id: string(snap.ID), Name: snap.Name, Source: string(snap.Source), Group: string(snap.Group),
		Node: string(snap.Node), HostId: string(snap.Host), PoolId: string(snap.Pool), SizeBytes: snap.Size,
		Phase: snap.Phase.String(), Reason: snap.Error, Cut: timeView(snap.TakenAt), Missing: snap.Missing, FsType: snap.Format.FSType,
		Operation: snapshotOperation(snap), Created: snap.Created.String(), Modified: snap.Modified, Kept: keptView(snap.KeptCopy),
	}
}

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

func keptView(k *fsm.KeptCopy) *adminpb.Kept {
	if k == nil {
		return nil
	}
	reason := k.Reason
	if k.BeforeSync {
		reason = "before resync"
	}
	return &adminpb.Kept{Reason: reason, Generation: k.Generation, Attach: k.Attachment, Superseded: timeView(k.Superseded), BeforeSync: k.BeforeSync}
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

func groupView(st *fsm.State, g *fsm.GroupSnapshot) *adminpb.GroupSnapshot {
	return &adminpb.GroupSnapshot{
		Id: string(g.ID), Name: g.Name, Members: mapSlice(g.Members, func(id fsm.SnapshotID) string { return string(id) }),
		Phase: g.Phase.String(), Attempt: g.Attempt, Cut: timeView(g.TakenAt), Reason: g.Error,
		Operation: groupOperation(st, g), Created: g.Created.String(), Modified: g.Modified,
	}
}

func groupsTable(w io.Writer, a *adminpb.GroupSnapshotsResponse) {
	row(w, "ID", "NAME", "MEMBERS", "PHASE", "ATTEMPT", "CUT", "CONDITION")
	for _, g := range a.GetGroups() {
		row(w, g.GetId(), g.GetName(), len(g.GetMembers()), g.GetPhase(), g.GetAttempt(), g.GetCut(),
			cmp.Or(g.GetReason(), g.GetOperation().GetLastError()))
	}
	fmt.Fprintf(w, "at index %d\n", a.GetIndex())
}
