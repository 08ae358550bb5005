package admin

import (
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// forgetMissingSnapshots deletes the snapshots that this log knows as taken and whose hosts removed them after the backup.
// Where the host does not say so, it is the operator who does.
func (a *adoption) forgetMissingSnapshots() {
	groups := map[fsm.GroupSnapshotID]bool{}
	for _, n := range slices.Collect(a.state.Snapshots("")) {
		if n.Phase != fsm.SnapshotReady || !a.isSnapshotMissing(n) || a.reachedTodoLimit() {
			continue
		}
		t := step{action: "delete-snapshot", snapshot: string(n.ID), snapshotName: n.Name, node: n.Node, detail: "its host does not have it: it was deleted after the backup, as that says"}
		switch {
		case !a.saidSnapshotRemoved(n) && !a.req.GetForgetMissing():
			t.state, t.detail = stepBlocked, "its host does not have it, and does not say that it was deleted: it was deleted after the backup, or its disk is gone: --forget-missing deletes it"
			a.add(t)
		case n.Group == "":
			a.addCommand(t, &fsmpb.Command{Body: &fsmpb.Command_DeleteSnapshot{DeleteSnapshot: &fsmpb.DeleteSnapshot{SnapshotId: string(n.ID)}}})
		case !groups[n.Group]:
			groups[n.Group] = true
			a.deleteGroup(t, n.Group)
		}
	}
}

// deleteGroup deletes a group snapshot of which no host has a member any more. One of which a member is left stays.
func (a *adoption) deleteGroup(t step, id fsm.GroupSnapshotID) {
	g, ok := a.state.GroupSnapshot(id)
	if !ok {
		return
	}
	t.snapshot, t.snapshotName = string(id), g.Name
	for _, member := range g.Members {
		if n, known := a.state.Snapshot(member); known && !a.isSnapshotMissing(n) {
			t.state, t.detail = stepBlocked, "node "+string(n.Node)+" has a member of it, and another one is not there: delete the group snapshot if it is of no use any more"
			a.add(t)
			return
		}
	}
	a.addCommand(t, &fsmpb.Command{Body: &fsmpb.Command_DeleteGroupSnapshot{DeleteGroupSnapshot: &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: string(id)}}})
}

// isSnapshotMissing: its host answered in adoption mode, and neither that nor another one has an image of it.
func (a *adoption) isSnapshotMissing(s *fsm.Snapshot) bool {
	for _, h := range a.holdings {
		if h.snapshotImages[s.ID] {
			return false
		}
	}
	n, ok := a.state.Node(s.Node)
	h, asked := a.holdings[s.Node]
	return ok && n.Host == s.Host && n.Incarnation != a.incarnation && asked && h.err == nil
}

func (a *adoption) saidSnapshotRemoved(s *fsm.Snapshot) bool {
	return a.holdings[s.Node].snapshots[s.ID].GetRemoved()
}

// listOrphanSnapshots lists the images of which nothing says what they are. They stay as they are.
func (a *adoption) listOrphanSnapshots() {
	for _, node := range slices.Sorted(maps.Keys(a.holdings)) {
		h := a.holdings[node]
		for _, id := range slices.Sorted(maps.Keys(h.snapshotImages)) {
			if _, known := a.state.Snapshot(id); !known && h.snapshots[id] == nil {
				a.add(step{action: "leave", state: stepFollows, node: node, snapshot: string(id),
					detail: "nothing says what it is: it stays as it is, an orphan of `holdfast audit`; a kept copy of a replicated volume is recorded once its host is adopted"})
			}
		}
	}
}
