package admin

import (
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// History streams what this member's journal knows, filtered. It needs no
// quorum: a journal holds only what was committed.
func (s *Server) History(req *adminpb.HistoryRequest, out adminpb.Admin_HistoryServer) error {
	state := s.Cluster.Fork()
	filter := historyFilter{node: req.GetNode(), volume: req.GetVolume(), snapshot: req.GetSnapshot(), ids: map[string]bool{}}
	filter.learn(state)
	first, err := s.Cluster.History(1, 1, func(Entry) bool { return false })
	if err != nil {
		return s.Error(err)
	}
	header := &adminpb.HistoryHeader{Index: state.Cluster().Index, KnownFrom: first, Member: s.Name}
	if err := out.Send(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Header{Header: header}}); err != nil {
		return err
	}
	return s.sendEntries(req, &filter, &claims{state: state, gone: map[string]*adminpb.Claim{}}, out)
}

func (s *Server) sendEntries(req *adminpb.HistoryRequest, filter *historyFilter, known *claims, out adminpb.Admin_HistoryServer) error {
	var failed error
	_, err := s.Cluster.History(req.GetFrom(), req.GetTo(), func(e Entry) bool {
		view := entryView(e)
		view.Claims = known.of(view)
		if failed = out.Context().Err(); failed == nil && filter.wants(view) {
			failed = out.Send(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Entry{Entry: view}})
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return s.Error(err)
}

// historyFilter picks the entries about a volume, a snapshot (or a group of them),
// a node, or all of these. One given by name stands for all that ever had the name.
type historyFilter struct {
	volume, node, snapshot string
	ids                    map[string]bool // of volumes, snapshots and groups that are meant
}

// learn takes the ids of what is in the state and meant.
func (f *historyFilter) learn(st *fsm.State) {
	if f.volume != "" {
		f.ids[f.volume] = true
		for v := range st.Volumes("") {
			f.note(v.Name == f.volume, string(v.ID))
		}
	}
	if f.snapshot == "" {
		return
	}
	f.ids[f.snapshot] = true
	for n := range st.Snapshots("") {
		f.note(n.Name == f.snapshot, string(n.ID))
	}
	for g := range st.GroupSnapshots("") {
		f.note(g.Name == f.snapshot, string(g.ID))
		for _, id := range g.Members {
			f.note(f.ids[string(g.ID)], string(id))
		}
	}
}

func (f *historyFilter) note(meant bool, id string) {
	if meant && id != "" {
		f.ids[id] = true
	}
}

// follow takes the ids that a command gave to what is meant.
func (f *historyFilter) follow(e *adminpb.HistoryEntry) {
	command, outcome := e.GetCommand(), e.GetOutcome()
	if c := command.GetCreateVolume(); c != nil && f.volume != "" {
		f.note(c.GetName() == f.volume, outcome.GetVolumeId())
	}
	if f.snapshot == "" {
		return
	}
	f.note(command.GetCreateSnapshot().GetName() == f.snapshot, outcome.GetSnapshotId())
	if c := command.GetCreateGroupSnapshot(); c != nil {
		f.note(c.GetName() == f.snapshot, outcome.GetGroupSnapshotId())
		for _, m := range c.GetMembers() {
			f.note(f.ids[outcome.GetGroupSnapshotId()], m.GetSnapshotId())
		}
	}
}

func (f *historyFilter) wants(e *adminpb.HistoryEntry) bool {
	if e.GetGap() {
		return true // a gap may hide what was asked for
	}
	f.follow(e)
	meant := func(id string) bool { return f.ids[id] }
	return (f.node == "" || e.GetNode() == f.node) &&
		(f.volume == "" || slices.ContainsFunc(e.GetVolumes(), meant)) &&
		(f.snapshot == "" || slices.ContainsFunc(e.GetSnapshots(), meant) || slices.ContainsFunc(e.GetGroups(), meant))
}

func entryView(e Entry) *adminpb.HistoryEntry {
	if e.Command == nil {
		return &adminpb.HistoryEntry{Index: e.Index, Term: e.Term, Gap: true, GapTo: e.GapTo, Why: e.Why}
	}
	view := &adminpb.HistoryEntry{
		Index: e.Index, Term: e.Term, Actor: e.Command.GetActor(), Kind: kindOf(e.Command),
		At:      timeView(time.Unix(0, e.Command.GetProposedAt())),
		Command: e.Command, Outcome: e.Outcome,
	}
	subjects(e.Command.ProtoReflect(), view)
	view.Volumes = with(view.GetVolumes(), e.Outcome.GetVolumeId())
	view.Snapshots = with(view.GetSnapshots(), e.Outcome.GetSnapshotId())
	view.Groups = with(view.GetGroups(), e.Outcome.GetGroupSnapshotId())
	return view
}

// with is the list with an id in it, once.
func with(ids []string, id string) []string {
	if id == "" || slices.Contains(ids, id) {
		return ids
	}
	return append(ids, id)
}

// kindOf is the name of the command's body.
func kindOf(c *fsmpb.Command) string {
	m := c.ProtoReflect()
	if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); field != nil {
		return string(field.Name())
	}
	return "unknown"
}

// subjects collects the volumes, snapshots and the node that a command names, wherever it
// names them, so that a new command needs no line here.
func subjects(m protoreflect.Message, into *adminpb.HistoryEntry) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Name() == "volume_id", field.Name() == "source_volume_id":
			into.Volumes = with(into.GetVolumes(), value.String())
		case field.Name() == "snapshot_id":
			into.Snapshots = with(into.GetSnapshots(), value.String())
		case field.Name() == "group_snapshot_id":
			into.Groups = with(into.GetGroups(), value.String())
		case field.Name() == "node_id":
			into.Node = value.String()
		case field.Message() != nil && field.IsList():
			for i := range value.List().Len() {
				subjects(value.List().Get(i).Message(), into)
			}
		case field.Message() != nil && !field.IsMap():
			subjects(value.Message(), into)
		}
		return true
	})
}
