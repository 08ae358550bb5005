package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// heldSnapshot is what node n1's host has of snapshot n at the end of a log.
func (w *world) heldSnapshot(n int) *fsmpb.AdoptedSnapshot {
	w.t.Helper()
	node := w.snapshot(n).Node
	d, ok := w.s.DesiredSnapshot(node, SnapshotID(snapshotID(n)))
	require.True(w.t, ok)
	require.NotEmpty(w.t, d.Manifest)
	held := &fsmpb.HeldSnapshot{Manifest: &fsmpb.SnapshotManifest{}, At: w.s.epoch().Proto(), SizeBytes: d.Size}
	require.NoError(w.t, proto.Unmarshal([]byte(d.Manifest), held.Manifest))
	return &fsmpb.AdoptedSnapshot{NodeId: string(node), HostId: "host-" + string(node), Held: held}
}

func adoptSnapshots(held ...*fsmpb.AdoptedSnapshot) *fsmpb.AdoptSnapshot {
	return &fsmpb.AdoptSnapshot{GroupSnapshotId: held[0].GetHeld().GetManifest().GetGroup().GetGroupSnapshotId(), Snapshots: held}
}

// requireSameSnapshot compares what two logs say of a snapshot, but for when they said so.
func requireSameSnapshot(t *testing.T, want, got *Snapshot) {
	t.Helper()
	a, b := *want, *got
	for _, n := range []*Snapshot{&a, &b} {
		n.Created, n.Modified, n.Sequence = Epoch{}, 0, 0
	}
	require.Equal(t, a, b)
}

// S1: a snapshot that is newer than the backup is in the log again, ready to use, with its volume or without; the
// orchestrator's create of its name joins it, and only a delete removes its image.
func TestS1_ASnapshotThatIsNewerThanTheBackupIsAdopted(t *testing.T) {
	for name, sourceAdopted := range map[string]bool{"with its volume": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			lost := newWorld(t)
			w := lost.lostAfter(func() {
				lost.ready(1, create(1))
				lost.takeSnapshot(1, 1)
			})
			if sourceAdopted {
				w.ok(admin, adopt(1, lost.held(1, "n1")))
			}
			w.twice(admin, adoptSnapshots(lost.heldSnapshot(1)))
			requireSameSnapshot(t, lost.snapshot(1), w.snapshot(1))
			d, _ := w.s.DesiredSnapshot("n1", SnapshotID(snapshotID(1)))
			require.Empty(t, d.Manifest, "a host in adoption mode keeps what the lost log said")
			w.ok(admin, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
			require.Equal(t, SnapshotGoalKeep, w.snapshotGoal(1))
			d, _ = w.s.DesiredSnapshot("n1", SnapshotID(snapshotID(1)))
			require.NotEmpty(t, d.Manifest)
			repeated := createSnapshot(1, 1)
			repeated.SnapshotId = snapshotID(7)
			require.Equal(t, snapshotID(1), w.twice(controller, repeated).GetSnapshotId())
			if sourceAdopted {
				w.ok(controller, createFrom(2, fromSnapshot(1)))
				return
			}
			w.twice(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
			require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(1))
		})
	}
}

// S1, S19: the backup saw the snapshot begin only. Its host has the one that callers were told of: it is not taken anew.
func TestS1_ASnapshotThatThisLogSawBeginIsNotTakenAnew(t *testing.T) {
	lost := newWorld(t)
	lost.ready(1, create(1))
	lost.ok(controller, createSnapshot(1, 1))
	w := lost.lostAfter(func() { lost.report("n1", takenReport(1, 77, 0)) })
	w.twice(admin, adoptSnapshots(lost.heldSnapshot(1)))
	requireSameSnapshot(t, lost.snapshot(1), w.snapshot(1))
	w.ok(admin, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
	require.Equal(t, SnapshotGoalKeep, w.snapshotGoal(1))
}

// S1, S19: a group snapshot is adopted with all members or not at all, also where the backup saw it begin and the restore
// gave it up.
func TestS1_AGroupSnapshotIsAdoptedWhole(t *testing.T) {
	for name, begun := range map[string]bool{"newer than the backup": false, "begun before it": true} {
		t.Run(name, func(t *testing.T) {
			lost := newWorld(t)
			lost.ready(1, create(1))
			lost.ready(2, create(2))
			if begun {
				lost.ok(controller, createGroup(1, 1, 2))
			}
			w := lost.lostAfter(func() { lost.takeGroup(1, 1, 2) })
			first, second := lost.heldSnapshot(100), lost.heldSnapshot(101)
			w.rejected(Precondition, admin, adoptSnapshots(first))
			w.rejected(Invalid, admin, adoptSnapshots(first, second, first))
			w.rejected(Invalid, admin, &fsmpb.AdoptSnapshot{Snapshots: []*fsmpb.AdoptedSnapshot{first}})
			w.twice(admin, adoptSnapshots(second, first))
			want, got := *lost.groupSnapshot(1), *w.groupSnapshot(1)
			want.Created, want.Modified, got.Created, got.Modified = Epoch{}, 0, Epoch{}, 0
			require.Equal(t, want, got)
			for _, n := range []int{100, 101} {
				requireSameSnapshot(t, lost.snapshot(n), w.snapshot(n))
			}
			w.ok(admin, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
			require.Equal(t, SnapshotGoalKeep, w.snapshotGoal(100))
			require.Equal(t, groupID(1), w.twice(controller, createGroup(1, 1, 2)).GetGroupSnapshotId())
		})
	}
}

// S1: nothing is taken from another snapshot, and what is no word of a lost log is refused.
func TestS1_AnAdoptionOfASnapshotThatIsRefused(t *testing.T) {
	lost := newPair(t)
	lost.ready(1, create(1))
	node := string(lost.volume(1).Replicas[0].Node)
	take := func(n int) {
		lost.ok(controller, createSnapshot(n, 1))
		lost.report(node, takenReport(n, int64(n), 0))
	}
	take(5)
	take(6)
	lost.ok(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(6)})
	w := lost.lostAfter(func() { take(1) })
	other := map[string]string{"n1": "n2", "n2": "n1"}[node]
	changed := func(change func(*fsmpb.AdoptedSnapshot)) *fsmpb.AdoptSnapshot {
		h := lost.heldSnapshot(1)
		change(h)
		return adoptSnapshots(h)
	}
	for name, tc := range map[string]struct {
		change func(*fsmpb.AdoptedSnapshot)
		want   Reason
	}{
		"another host":            {func(h *fsmpb.AdoptedSnapshot) { h.HostId = "other" }, StaleEpoch},
		"no such node":            {func(h *fsmpb.AdoptedSnapshot) { h.NodeId = "n9" }, NotFound},
		"no manifest":             {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest = nil }, Invalid},
		"no id":                   {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.SnapshotId = "x" }, Invalid},
		"no source":               {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.SourceVolumeId = "" }, Invalid},
		"no name":                 {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.Name = "" }, Invalid},
		"a long name":             {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.Name = string(make([]byte, maxNameBytes+1)) }, Invalid},
		"no time":                 {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.TakenAt = 0 }, Invalid},
		"a size that is none":     {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.SizeBytes = 17 }, Invalid},
		"a size above all":        {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.SizeBytes = 1 << 60 }, Invalid},
		"a format of no kind":     {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.Format.Phase = 77 }, Invalid},
		"no capability":           {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.Capabilities = nil }, Invalid},
		"another pool":            {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.PoolId = "p" }, Precondition},
		"no image":                {func(h *fsmpb.AdoptedSnapshot) { h.Held.SizeBytes = 0 }, Precondition},
		"an image that is short":  {func(h *fsmpb.AdoptedSnapshot) { h.Held.SizeBytes-- }, Precondition},
		"it was removed":          {func(h *fsmpb.AdoptedSnapshot) { h.Held.Removed = true }, Precondition},
		"of this incarnation":     {func(h *fsmpb.AdoptedSnapshot) { h.Held.At.Incarnation = 2 }, Precondition},
		"of none":                 {func(h *fsmpb.AdoptedSnapshot) { h.Held.At = nil }, Precondition},
		"a name that another has": {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.Name = "snap-5" }, Incompatible},
		"the id of another's, elsewhere": {func(h *fsmpb.AdoptedSnapshot) {
			h.Held.Manifest.SnapshotId, h.NodeId, h.HostId, h.Held.Manifest.PoolId = snapshotID(5), other, "host-"+other, "pool-"+other
		}, Incompatible},
		"one that is being deleted": {func(h *fsmpb.AdoptedSnapshot) { h.Held.Manifest.SnapshotId = snapshotID(6) }, Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.rejected(tc.want, admin, changed(tc.change))
		})
	}
	t.Run("two at once, or none, or by no operator", func(t *testing.T) {
		w.t = t
		w.rejected(Invalid, admin, adoptSnapshots(lost.heldSnapshot(1), lost.heldSnapshot(1)))
		w.rejected(Invalid, admin, &fsmpb.AdoptSnapshot{})
		w.rejected(Invalid, admin, &fsmpb.AdoptSnapshot{GroupSnapshotId: groupID(1)})
		w.rejected(Forbidden, "node/"+node, adoptSnapshots(lost.heldSnapshot(1)))
	})
	w.t = t
	w.twice(admin, adoptSnapshots(lost.heldSnapshot(1)))
	before := w.snapshot(5)
	known := lost.heldSnapshot(5)
	known.Held.Manifest.Fingerprint = []byte("other")
	w.twice(admin, adoptSnapshots(known))
	require.Equal(t, before, w.snapshot(5), "what this log knows stays as it is known")
}

// S1, S9, S49: a kept copy that is newer than the backup is adopted. It is never removed without a request, though all
// replicas are up to date, and its generation of the lost log is none of this one.
func TestS1_S49_AKeptCopyIsAdoptedAndNeverExpires(t *testing.T) {
	lost := newLoser(t)
	w := lost.lostAfter(func() {
		lost.ok("node/n1", lost.keepReplica(4, "n1"))
		lost.report("n1", keptFact(4, "n1"))
		require.Equal(t, SnapshotReady, lost.snapshot(4).Phase)
	})
	w.twice(admin, adoptSnapshots(lost.heldSnapshot(4)))
	k := w.snapshot(4)
	require.Equal(t, lost.snapshot(4).KeptCopy.Attachment, k.KeptCopy.Attachment)
	require.Zero(t, k.KeptCopy.Generation)
	require.True(t, k.KeptCopy.Adopted)
	for _, node := range []string{"n1", "n2"} {
		w.ok(admin, &fsmpb.AdoptNode{NodeId: node, HostId: "host-" + node, Incarnation: 2})
	}
	for range 2 {
		w.s.supersedeKeptCopies(k.Source)
		require.Equal(t, SnapshotReady, w.snapshot(4).Phase)
		require.False(t, w.s.MayExpire(w.snapshot(4)))
	}
	w.rejected(Precondition, controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(4), Superseded: true})
	w.ok(admin, removeCopy(4))
	require.Equal(t, SnapshotDeleting, w.snapshot(4).Phase)
}
