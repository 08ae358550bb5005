package leaks

import (
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// The commands of the log that make something, and those that use a volume.
var (
	makingVolumes   = []string{"create_volume", "import_volume", "adopt_volume"}
	makingSnapshots = []string{"create_snapshot", "create_group_snapshot"}
	using           = []string{"publish_volume", "unpublish_volume", "stage_volume", "publish_target"}
)

// ReadHistory takes in one message of the journal: who made what is compared, and when it was used last. A command that
// was rejected made nothing.
func (s *State) ReadHistory(m *adminpb.HistoryResponse) error {
	e := m.GetEntry()
	at, err := time.Parse(time.RFC3339, e.GetAt())
	if e == nil || err != nil || e.GetOutcome().GetRejection() != nil {
		return nil
	}
	event := Event{At: at, Actor: e.GetActor()}
	switch {
	case slices.Contains(makingVolumes, e.GetKind()):
		s.noteMade(event, e.GetOutcome().GetVolumeId()) // its source is named, too
	case slices.Contains(makingSnapshots, e.GetKind()):
		s.noteMade(event, e.GetSnapshots()...)
	case slices.Contains(using, e.GetKind()):
		for _, id := range e.GetVolumes() {
			s.Used[id] = event
		}
	}
	return nil
}

// noteMade keeps the first command of each: later ones joined it.
func (s *State) noteMade(event Event, ids ...string) {
	for _, id := range ids {
		if _, made := s.Made[id]; !made {
			s.Made[id] = event
		}
	}
}

// Missing says what the list says nothing of.
func (l *List) Missing() (all []string) {
	for what, has := range map[string]bool{"volumes": l.HasVolumes, "snapshots": l.HasSnapshots, "attachments": l.HasAttachments && l.HasVolumes} {
		if !has {
			all = append(all, what+": the list has none")
		}
	}
	slices.Sort(all)
	return all
}
