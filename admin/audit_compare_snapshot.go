package admin

import (
	"cmp"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/fsm"
)

// id is a volume's or a snapshot's, empty when the name tells neither.
func (i Item) id() string { return cmp.Or(string(i.ID), string(i.Snapshot)) }

// snapshots compares the snapshots that a host keeps or owes with what it holds, and
// takes those it looked for out of held.
func (f *findings) compareSnapshots(st *fsm.State, n *fsm.Node, itemsByID map[string][]Item, dir string) (checked uint64) {
	for s := range st.SnapshotsOn(n.ID) {
		if s.Host != n.Host {
			continue
		}
		checked++
		f.compareSnapshot(s, itemsByID[string(s.ID)], dir)
		delete(itemsByID, string(s.ID))
	}
	return checked
}

// snapshot: one that is Ready has one file and nothing else; of all others the log
// itself says that something may be there or not.
func (f *findings) compareSnapshot(s *fsm.Snapshot, items []Item, dir string) {
	switch {
	case s.Phase == fsm.SnapshotFailed && len(items) == 0:
		return // nothing was made, and nothing is asked of the host
	case s.Phase != fsm.SnapshotReady:
		f.pending = append(f.pending, pendingSnapshotFindings(s, items, dir)...)
		return
	}
	found := false
	for _, item := range items {
		if item.Kind == kindSnapshot && !found {
			found = true
			continue
		}
		f.orphans = append(f.orphans, finding{s.Node, item.Kind, string(s.ID), item.Path})
	}
	if !found {
		f.missing = append(f.missing, finding{s.Node, kindSnapshot, string(s.ID), snapshotPath(dir, s.ID)})
	}
}

// addPendingSnapshots adds the cuts and removals of a host that cannot be asked (S18).
func (f *findings) addPendingSnapshots(st *fsm.State, n *fsm.Node) {
	for s := range st.SnapshotsOn(n.ID) {
		if s.Host == n.Host && s.Phase != fsm.SnapshotReady {
			f.pending = append(f.pending, pendingSnapshotFindings(s, nil, "snapshots")...)
		}
	}
}

// pendingSnapshotFindings is every item found, or the one that would be there.
func pendingSnapshotFindings(s *fsm.Snapshot, items []Item, dir string) []finding {
	if len(items) == 0 {
		return []finding{{s.Node, kindSnapshot, string(s.ID), snapshotPath(dir, s.ID)}}
	}
	return mapSlice(items, func(i Item) finding { return finding{s.Node, i.Kind, string(s.ID), i.Path} })
}

func snapshotPath(dir string, id fsm.SnapshotID) string { return filepath.Join(dir, string(id)+".img") }
