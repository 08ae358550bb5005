package admin

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/admin/listing"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const copyID = fsm.SnapshotID("hs-00000000-0000-4000-8000-0000000000aa")

// keepCopy applies a host's report that it kept a copy of its replica of the volume.
func (w *env) keepCopy(node string, id fsm.VolumeID) {
	w.t.Helper()
	w.reportReplica(node, id, &fsmpb.Observation{SnapshotId: string(copyID), Fact: &fsmpb.Observation_SnapshotKept{
		SnapshotKept: &fsmpb.SnapshotKept{Attach: 1, PoolId: "pool-" + node, CutUnixNano: 1},
	}})
}

// S49: an audit expects a recorded kept copy on its host. A copy without its file, or a file without a
// record, is a finding; while the copy is being removed it is pending.
func TestS49_AuditOfKeptCopies(t *testing.T) {
	file := Item{Kind: kindSnapshot, Snapshot: copyID, Path: "/pool/snapshots/" + string(copyID) + ".img"}
	for name, tc := range map[string]struct {
		recorded, there, removed  bool
		orphans, missing, pending int
	}{
		"kept":                   {recorded: true, there: true},
		"without its file":       {recorded: true, missing: 1},
		"without its record":     {there: true, orphans: 1},
		"being removed":          {recorded: true, there: true, removed: true, pending: 1},
		"removed and not so yet": {recorded: true, removed: true, pending: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicatedEnv(t, "n1", "n2")
			id := w.replicate(1)
			w.items["n1"], w.items["n2"] = replicaItems(id), replicaItems(id)
			if tc.recorded {
				w.keepCopy("n1", id)
			}
			if tc.there {
				w.items["n1"] = append(w.items["n1"], file)
			}
			if tc.removed {
				w.deleteSnapshot(copyID)
			}
			resp := w.audit()
			require.Equal(t, []int{tc.orphans, tc.missing, tc.pending}, []int{len(resp.GetOrphans()), len(resp.GetMissing()), len(resp.GetPending())})
		})
	}
}

// S49: kept copies are listed apart from the snapshots that users created.
func TestS49_KeptCopiesAreListed(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	w.keepCopy("n1", id)
	snapshots, err := w.server.Snapshots(t.Context(), &adminpb.SnapshotsRequest{})
	require.NoError(t, err)
	require.Empty(t, snapshots.GetSnapshots())
	for _, source := range []string{"", "pvc-1", string(id)} {
		kept, err := w.server.Snapshots(t.Context(), &adminpb.SnapshotsRequest{Kept: true, Source: source})
		require.NoError(t, err)
		require.Len(t, kept.GetSnapshots(), 1)
		var table bytes.Buffer
		require.NoError(t, PrintList(&table, "table", KeptCopyList, kept, listing.View{}))
		for _, text := range []string{string(copyID), string(id), "n1", "pool-n1", "ready", "found on its host"} {
			require.Contains(t, table.String(), text)
		}
	}
}

// S49, S71: the removal of a kept copy has a plan that says what is lost, and is done for that host only.
func TestS49_PlanOfRemovingAKeptCopy(t *testing.T) {
	for _, named := range []string{"pvc-1", string(copyID)} {
		w := newReplicatedEnv(t, "n1", "n2")
		id := w.replicate(1)
		w.keepCopy("n1", id)
		req := &adminpb.PlanRequest{Verb: "remove-kept", Node: "n1", Volume: named}
		p := w.plan(req)
		require.Len(t, p.GetSteps(), 1)
		require.Equal(t, "remove-kept todo", p.GetSteps()[0].GetAction()+" "+p.GetSteps()[0].GetState())
		require.Contains(t, p.GetSteps()[0].GetDetail(), "IS LOST")
		n, _ := w.state.Snapshot(copyID)
		require.Equal(t, fsm.SnapshotReady, n.Phase, "it was only shown")

		p = w.carryOut(req)
		require.Equal(t, "done", p.GetSteps()[0].GetState())
		require.Equal(t, "waiting", w.plan(req).GetSteps()[0].GetState(), "its host removes it")
		w.reportReplica("n1", id, &fsmpb.Observation{SnapshotId: string(copyID), Fact: &fsmpb.Observation_SnapshotGone{SnapshotGone: &fsmpb.SnapshotGone{}}})
		require.True(t, w.plan(req).GetDone(), "said again it has nothing to do")
		require.True(t, w.plan(&adminpb.PlanRequest{Verb: "remove-kept", Node: "n2", Volume: named}).GetDone())
	}
	w := newReplicatedEnv(t, "n1")
	_, err := w.server.Plan(t.Context(), &adminpb.PlanRequest{Verb: "remove-kept", Node: "n1", Volume: "nothing"})
	require.ErrorContains(t, err, `no volume has the id or name "nothing", and no kept copy this id`)
}

// S49: the plan that evicts a host lists the host's kept copies.
func TestS49_EvictListsKeptCopies(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2", "n3")
	w.keepCopy("n1", w.replicate(1))
	require.Contains(t, planText(w.plan(&adminpb.PlanRequest{Verb: "evict", Node: "n1"})), "blocked keep @n1")
}
