package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Nothing that replication between sites does, or leaves for a decision, is a finding; what is lost meanwhile is one.
func TestAuditOfReplicationBetweenSites(t *testing.T) {
	image := func(id fsm.VolumeID) []Item { return []Item{imageItem(id)} }
	for name, tc := range map[string]struct {
		arrange          func(w *env) (n1, n2 []Item)
		missing, pending int
	}{
		"S55: converted, the second replica being made": {pending: 2, arrange: func(w *env) ([]Item, []Item) {
			id := w.plainAt(1)
			w.carryOut(of(enableReplication, "A"))
			return image(id), []Item{{Kind: kindUnfinished, ID: id, Path: "/pool/volumes/x.part"}}
		}},
		"S55: converted, DRBD being put below the content": {pending: 6, arrange: func(w *env) ([]Item, []Item) {
			id := w.plainAt(1)
			w.carryOut(of(enableReplication, "A"))
			w.attach("n2", id)
			require.True(t, w.volume(id).Replication.Conversion.OnSeed)
			return replicaItems(id), replicaItems(id)
		}},
		"S55: the conversion being undone": {pending: 3, arrange: func(w *env) ([]Item, []Item) {
			id := w.plainAt(1)
			w.carryOut(of(enableReplication, "A"))
			w.attach("n2", id)
			w.carryOut(of(disableReplication, "A"))
			require.True(t, w.volume(id).Replication.Conversion.Undoing)
			return []Item{imageItem(id), resourceItem(id)}, image(id)
		}},
		"S55: the content is lost meanwhile": {missing: 1, pending: 1, arrange: func(w *env) ([]Item, []Item) {
			id := w.plainAt(1)
			w.carryOut(of(enableReplication, "A"))
			return nil, image(id)
		}},
		"S48: a replica that is apart, still with its resource": {arrange: func(w *env) ([]Item, []Item) {
			id := w.promotedByForce()
			return replicaItems(id), replicaItems(id)
		}},
		"S48: or without it": {arrange: func(w *env) ([]Item, []Item) {
			id := w.promotedByForce()
			return image(id), replicaItems(id)
		}},
		"S48: and gone": {missing: 1, arrange: func(w *env) ([]Item, []Item) {
			return nil, replicaItems(w.promotedByForce())
		}},
		"S50: a copy that is being taken before a resynchronisation": {pending: 1, arrange: func(w *env) ([]Item, []Item) {
			id := w.replicated(1)
			w.lag(id)
			w.keepBeforeSync(id)
			return replicaItems(id), replicaItems(id)
		}},
		"S50: and that was taken": {arrange: func(w *env) ([]Item, []Item) {
			id := w.replicated(1)
			w.lag(id)
			w.keepBeforeSync(id)
			w.keepCopy("n2", id)
			return replicaItems(id), replicaItems(id, Item{Kind: kindSnapshot, Snapshot: copyID, Path: "/pool/snapshots/" + string(copyID) + ".img"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newSitesEnv(t)
			w.items["n1"], w.items["n2"] = tc.arrange(w)
			for range 2 {
				resp := w.audit()
				require.Empty(t, found(resp.GetOrphans()))
				require.Len(t, resp.GetMissing(), tc.missing, found(resp.GetMissing()))
				if tc.pending > 0 || tc.missing > 0 {
					require.GreaterOrEqual(t, len(resp.GetPending()), min(tc.pending, 1), found(resp.GetPending()))
				}
			}
		})
	}
}

// promotedByForce is a volume whose replica at site A is apart, its host having ended its use.
func (w *env) promotedByForce() fsm.VolumeID {
	w.t.Helper()
	id := w.replicated(1)
	w.lag(id)
	w.setUnreachable("n1")
	w.carryOut(forced(promoteSite, "B"))
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_SetNodeReachable{
		SetNodeReachable: &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1", Reachable: true}}})
	return id
}

// keepBeforeSync is the question of n2's host, whose replica lags, before it connects.
func (w *env) keepBeforeSync(id fsm.VolumeID) {
	w.t.Helper()
	out := w.mustApply(&fsmpb.Command{Actor: "node/n2", Body: &fsmpb.Command_KeepReplica{KeepReplica: &fsmpb.KeepReplica{
		VolumeId: string(id), NodeId: "n2", HostId: "host-n2", BootId: "boot", Attach: 1, SnapshotId: string(copyID), BeforeSync: true}}})
	require.Equal(w.t, string(copyID), out.GetSnapshotId())
}
