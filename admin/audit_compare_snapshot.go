package admin

import (
	"cmp"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/fsm"
)

// id returns the volume's id, else the snapshot's; empty when the item's name contains neither.
func (i Item) id() string { return cmp.Or(string(i.ID), string(i.Snapshot)) }

// compareSnapshots compares the host's snapshots in the state with its items, and removes the
// items that it compared from itemsByID. It returns how many snapshots it compared.
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

// compareSnapshot compares one snapshot: a Ready one has exactly one file; in every other phase
// files may exist or not.
func (f *findings) compareSnapshot(s *fsm.Snapshot, items []Item, dir string) {
	switch {
	case s.Phase == fsm.SnapshotFailed && len(items) == 0:
		return // nothing was created, and nothing is requested of the host
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
		f.orphans = append(f.orphans, finding{node: s.Node, kind: item.Kind, id: string(s.ID), path: item.Path})
	}
	if !found {
		f.missing = append(f.missing, finding{node: s.Node, kind: kindSnapshot, id: string(s.ID), path: snapshotPath(dir, s.ID)})
	}
}

// addPendingSnapshots adds the unfinished snapshots and removals of a host that did not answer (S18).
func (f *findings) addPendingSnapshots(st *fsm.State, n *fsm.Node) {
	for s := range st.SnapshotsOn(n.ID) {
		if s.Host == n.Host && s.Phase != fsm.SnapshotReady {
			f.pending = append(f.pending, pendingSnapshotFindings(s, nil, "snapshots")...)
		}
	}
}

// pendingSnapshotFindings returns every item found, or the expected path when none was found.
func pendingSnapshotFindings(s *fsm.Snapshot, items []Item, dir string) []finding {
	if len(items) == 0 {
		return []finding{{node: s.Node, kind: kindSnapshot, id: string(s.ID), path: snapshotPath(dir, s.ID)}}
	}
	return mapSlice(items, func(i Item) finding { return finding{node: s.Node, kind: i.Kind, id: string(s.ID), path: i.Path} })
}

func snapshotPath(dir string, id fsm.SnapshotID) string { return filepath.Join(dir, string(id)+".img") }
