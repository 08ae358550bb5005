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
	filter := historyFilter{node: req.GetNode(), volume: req.GetVolume(), ids: map[string]bool{}}
	filter.learn(state)
	first, err := s.Cluster.History(1, 1, func(Entry) bool { return false })
	if err != nil {
		return s.Error(err)
	}
	header := &adminpb.HistoryHeader{Index: state.Cluster().Index, KnownFrom: first, Member: s.Name}
	if err := out.Send(&adminpb.HistoryResponse{Body: &adminpb.HistoryResponse_Header{Header: header}}); err != nil {
		return err
	}
	return s.sendEntries(req, &filter, out)
}

func (s *Server) sendEntries(req *adminpb.HistoryRequest, filter *historyFilter, out adminpb.Admin_HistoryServer) error {
	var failed error
	_, err := s.Cluster.History(req.GetFrom(), req.GetTo(), func(e Entry) bool {
		view := entryView(e)
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

// historyFilter picks the entries about a volume, a node, or both. A volume
// given by name stands for every volume that ever had the name.
type historyFilter struct {
	volume, node string
	ids          map[string]bool
}

// learn takes the ids of the volumes in the state that are meant.
func (f *historyFilter) learn(st *fsm.State) {
	if f.volume == "" {
		return
	}
	f.ids[f.volume] = true
	for v := range st.Volumes("") {
		if v.Name == f.volume {
			f.ids[string(v.ID)] = true
		}
	}
}

func (f *historyFilter) wants(e *adminpb.HistoryEntry) bool {
	if e.GetGap() {
		return true // a gap may hide what was asked for
	}
	if create := e.GetCommand().GetCreateVolume(); create != nil && f.volume != "" && create.GetName() == f.volume {
		f.ids[e.GetOutcome().GetVolumeId()] = true
	}
	return (f.node == "" || e.GetNode() == f.node) &&
		(f.volume == "" || slices.ContainsFunc(e.GetVolumes(), func(id string) bool { return f.ids[id] }))
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
	if id := e.Outcome.GetVolumeId(); id != "" && !slices.Contains(view.GetVolumes(), id) {
		view.Volumes = append(view.Volumes, id)
	}
	return view
}

// kindOf is the name of the command's body.
func kindOf(c *fsmpb.Command) string {
	m := c.ProtoReflect()
	if field := m.WhichOneof(m.Descriptor().Oneofs().ByName("body")); field != nil {
		return string(field.Name())
	}
	return "unknown"
}

// subjects collects the volumes and the node that a command names, wherever it
// names them, so that a new command needs no line here.
func subjects(m protoreflect.Message, into *adminpb.HistoryEntry) {
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Name() == "volume_id":
			if id := value.String(); !slices.Contains(into.GetVolumes(), id) {
				into.Volumes = append(into.Volumes, id)
			}
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
