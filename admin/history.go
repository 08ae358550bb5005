package admin

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// History streams the filtered entries of this member's journal. It needs no quorum: a journal
// holds only committed entries.
func (s *Server) History(req *adminpb.HistoryRequest, out adminpb.Admin_HistoryServer) error {
	state := s.Cluster.Fork()
	filter := historyFilter{node: req.GetNode(), volume: req.GetVolume(), snapshot: req.GetSnapshot(), group: req.GetGroup(), ids: map[string]bool{}}
	filter.resolveIDs(state)
	first, err := s.Cluster.History(1, 1, func(Entry) bool { return false })
	if err != nil {
		return s.Error(err)
	}
	header := &adminpb.HistoryHeader{Index: state.Cluster().Index, KnownFrom: first, Member: s.Name}
	if err := out.Send(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Header{Header: header}}); err != nil {
		return err
	}
	return s.sendEntries(req, &filter, &claims{state: state, deleted: map[string]*adminpb.Claim{}}, out)
}

func (s *Server) sendEntries(req *adminpb.HistoryRequest, filter *historyFilter, known *claims, out adminpb.Admin_HistoryServer) error {
	var failed error
	involved := newInvolved(known.state)
	_, err := s.Cluster.History(req.GetFrom(), req.GetTo(), func(e Entry) bool {
		view := entryView(e)
		involved.add(view)
		view.Claims = known.ofEntry(view)
		if failed = out.Context().Err(); failed == nil && filter.matches(view) {
			failed = out.Send(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Entry{Entry: view}})
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return s.Error(err)
}

// historyFilter selects the entries about a volume, a snapshot (or a group snapshot), a volume group, a
// node, or all of these. A name selects every object that ever had it.
type historyFilter struct {
	volume, node, snapshot, group string
	ids                           map[string]bool // of volumes, snapshots and groups that are selected
}

// resolveIDs adds the ids of the selected objects that are in the state.
func (f *historyFilter) resolveIDs(st *fsm.State) {
	if f.volume != "" {
		f.ids[f.volume] = true
		if v := findVolume(st, f.volume); v != nil { // by SITE/NAME
			f.ids[string(v.ID)] = true
		}
		for v := range st.Volumes("") {
			f.addIf(v.Name == f.volume, string(v.ID))
		}
	}
	if f.group != "" {
		f.ids[f.group] = true
		if g := findVolumeGroup(st, f.group); g != nil {
			f.ids[string(g.ID)] = true
		}
		for g := range st.VolumeGroups("") {
			f.addIf(g.Name == f.group, string(g.ID))
		}
	}
	if f.snapshot == "" {
		return
	}
	f.ids[f.snapshot] = true
	for snap := range st.Snapshots("") {
		f.addIf(snap.Name == f.snapshot, string(snap.ID))
	}
	for g := range st.GroupSnapshots("") {
		f.addIf(g.Name == f.snapshot, string(g.ID))
		for _, id := range g.Members {
			f.addIf(f.ids[string(g.ID)], string(id))
		}
	}
}

func (f *historyFilter) addIf(selected bool, id string) {
	if selected && id != "" {
		f.ids[id] = true
	}
}

// learnFromEntry adds the ids of the selected objects that the entry's command created.
func (f *historyFilter) learnFromEntry(e *adminpb.HistoryEntry) {
	command, outcome := e.GetCommand(), e.GetOutcome()
	if c := command.GetCreateVolume(); c != nil && f.volume != "" {
		f.addIf(c.GetName() == f.volume, outcome.GetVolumeId())
	}
	if c := command.GetCreateVolumeGroup(); c != nil && f.group != "" {
		f.addIf(c.GetName() == f.group, outcome.GetVolumeGroupId())
	}
	if f.snapshot == "" {
		return
	}
	f.addIf(command.GetCreateSnapshot().GetName() == f.snapshot, outcome.GetSnapshotId())
	if c := command.GetCreateGroupSnapshot(); c != nil {
		f.addIf(c.GetName() == f.snapshot, outcome.GetGroupSnapshotId())
		for _, m := range c.GetMembers() {
			f.addIf(f.ids[outcome.GetGroupSnapshotId()], m.GetSnapshotId())
		}
	}
}

func (f *historyFilter) matches(e *adminpb.HistoryEntry) bool {
	if e.GetGap() {
		return true // a gap may hide entries that match
	}
	f.learnFromEntry(e)
	selected := func(id string) bool { return f.ids[id] }
	return (f.node == "" || e.GetNode() == f.node || slices.Contains(e.GetFencedNodes(), f.node)) &&
		(f.group == "" || slices.ContainsFunc(e.GetGroups(), selected)) &&
		(f.volume == "" || slices.ContainsFunc(e.GetVolumes(), selected)) &&
		(f.snapshot == "" || slices.ContainsFunc(e.GetSnapshots(), selected) || slices.ContainsFunc(e.GetGroups(), selected))
}

func entryView(e Entry) *adminpb.HistoryEntry {
	if e.Command == nil {
		return &adminpb.HistoryEntry{Index: e.Index, Term: e.Term, Gap: true, GapTo: e.GapTo, Why: e.GapReason}
	}
	view := &adminpb.HistoryEntry{
		Index: e.Index, Term: e.Term, Actor: e.Command.GetActor(), Kind: commandKind(e.Command),
		At:      timeView(fsm.TimeOf(e.Command.GetProposedAt())),
		Command: e.Command, Outcome: e.Outcome, Chain: e.Chain,
	}
	collectSubjects(e.Command.ProtoReflect(), view)
	view.Volumes = appendUnique(view.GetVolumes(), e.Outcome.GetVolumeId())
	view.Snapshots = appendUnique(view.GetSnapshots(), e.Outcome.GetSnapshotId())
	view.Groups = appendUnique(view.GetGroups(), e.Outcome.GetGroupSnapshotId())
	view.Groups = appendUnique(view.GetGroups(), e.Outcome.GetVolumeGroupId())
	for _, g := range e.Outcome.GetGivenUp() {
		view.Volumes = appendUnique(view.GetVolumes(), g.GetVolumeId())
	}
	for _, r := range e.Outcome.GetRoleMoved() {
		view.Volumes = appendUnique(view.GetVolumes(), r.GetVolumeId())
		view.Groups = appendUnique(view.GetGroups(), r.GetVolumeGroupId())
	}
	return view
}

// appendUnique appends an id unless it is empty or in the list already.
func appendUnique(ids []string, id string) []string {
	if id == "" || slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}

// commandKind returns the name of the command's body.
func commandKind(c *fsmpb.Command) string {
	m := c.ProtoReflect()
	if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); field != nil {
		return string(field.Name())
	}
	return "unknown"
}

// collectSubjects collects the ids of volumes, snapshots, groups and the node that a command has
// in any of its fields, so that a new command needs no code here.
func collectSubjects(m protoreflect.Message, into *adminpb.HistoryEntry) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Name() == "volume_id", field.Name() == "source_volume_id":
			into.Volumes = appendUnique(into.GetVolumes(), value.String())
		case field.Name() == "snapshot_id":
			into.Snapshots = appendUnique(into.GetSnapshots(), value.String())
		case field.Name() == "volume_ids":
			for i := range value.List().Len() {
				into.Volumes = appendUnique(into.GetVolumes(), value.List().Get(i).String())
			}
		case field.Name() == "group_snapshot_id", field.Name() == "volume_group_id":
			into.Groups = appendUnique(into.GetGroups(), value.String())
		case field.Name() == "expect_hosts": // which of them a fence binds follows from its CIDRs
		case field.Name() == "node_id":
			into.Node = value.String()
		case field.Message() != nil && field.IsList():
			for i := range value.List().Len() {
				collectSubjects(value.List().Get(i).Message(), into)
			}
		case field.Message() != nil && !field.IsMap():
			collectSubjects(value.Message(), into)
		}
		return true
	})
}
