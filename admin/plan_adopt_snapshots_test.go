package admin

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// takeSnapshot takes the nth snapshot of a volume on n1.
func (w *env) takeSnapshot(n int, source fsm.VolumeID) fsm.SnapshotID {
	w.t.Helper()
	id := fmt.Sprintf("hs-00000000-0000-4000-8000-%012x", n)
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateSnapshot{CreateSnapshot: &fsmpb.CreateSnapshot{
		SnapshotId: id, Name: fmt.Sprintf("snap-%d", n), SourceVolumeId: string(source), Fingerprint: []byte("f")}}})
	w.observe(&fsmpb.Observation{VolumeId: string(source), SnapshotId: id, Sequence: 1, Fact: &fsmpb.Observation_SnapshotCut{
		SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: 1 << 30, CutUnixNano: int64(n)}}})
	return fsm.SnapshotID(id)
}

// takeGroup takes a group snapshot of the volumes.
func (w *env) takeGroup(sources ...fsm.VolumeID) fsm.GroupSnapshotID {
	w.t.Helper()
	id := w.group(sources...)
	g, _ := w.state.GroupSnapshot(id)
	for i, member := range append(append([]fsm.SnapshotID{}, g.Members...), g.Members...) {
		o := &fsmpb.Observation{SnapshotId: string(member), Fact: &fsmpb.Observation_Frozen{Frozen: &fsmpb.Frozen{Attempt: 1}}}
		if i >= len(g.Members) {
			o.Fact = &fsmpb.Observation_SnapshotCut{SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: 1 << 30, CutUnixNano: 7, Attempt: 1}}
		}
		w.observe(o)
	}
	return id
}

// removeSnapshot has n1's host say that it removed the snapshot at the log's word, or say nothing of it.
func (w *env) removeSnapshot(id fsm.SnapshotID, said bool) {
	w.dropImage(id)
	for i, held := range w.snapshots["n1"] {
		if held.GetManifest().GetSnapshotId() != string(id) {
			continue
		}
		if held.Removed, held.SizeBytes = true, 0; !said {
			w.snapshots["n1"] = append(w.snapshots["n1"][:i:i], w.snapshots["n1"][i+1:]...)
		}
		return
	}
}

func (w *env) dropImage(id fsm.SnapshotID) {
	kept := w.items["n1"][:0:0]
	for _, item := range w.items["n1"] {
		if item.Snapshot != id {
			kept = append(kept, item)
		}
	}
	w.items["n1"] = kept
}

// S1: snapshots that are newer than the backup are shown and taken in, with their groups; those that were deleted since are
// deleted; what nothing explains stays as it is. Each image has a row, or is known.
func TestS1_AdoptTakesInSnapshots(t *testing.T) {
	w := newEnv(t, "n1")
	one, two := w.create(1, true), w.create(2, true)
	known, deleted, vanished := w.takeSnapshot(1, one), w.takeSnapshot(2, one), w.takeSnapshot(3, one)
	backup := w.state.Fork()
	newer := w.takeSnapshot(4, two)
	group := w.takeGroup(one, two)
	w.keepManifests()
	w.removeSnapshot(deleted, true)
	w.removeSnapshot(vanished, false)
	w.items["n1"] = append(w.items["n1"], snapshotItem("hs-00000000-0000-4000-8000-000000000099"))
	w.restore(backup)

	require.Equal(t, []string{"todo adopt-snapshot snap-4@n1", "todo adopt-snapshot group-1@n1", "todo delete-snapshot snap-2@n1", "blocked delete-snapshot snap-3@n1",
		"follows leave @n1", "todo adopt-node @n1"}, planText(w.plan(adoptRequest(2))))
	w.carryOutAdoption(adoptRequest(2))
	for _, id := range []fsm.SnapshotID{known, newer, vanished} {
		n, ok := w.state.Snapshot(id)
		require.True(t, ok)
		require.Equal(t, fsm.SnapshotReady, n.Phase, id)
	}
	g, ok := w.state.GroupSnapshot(group)
	require.True(t, ok)
	require.Equal(t, fsm.GroupReady, g.Phase)
	n, _ := w.state.Snapshot(deleted)
	require.Equal(t, fsm.SnapshotDeleting, n.Phase)
	again := w.plan(adoptRequest(2))
	require.Equal(t, []string{"follows leave @n1", "done adopt-node @n1"}, planText(again))
	require.True(t, again.GetDone())
	hash := w.state.Hash()
	w.carryOutAdoption(adoptRequest(2))
	require.Equal(t, hash, w.state.Hash(), "adopted twice, nothing changes")
}

// S1: what cannot be told apart, or would take another's place, stays as it is with the reason; its host acts.
func TestS1_ASnapshotThatCannotBeAdoptedIsAnOrphanWithAReason(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(w *env)
		why    string
	}{
		"two hosts claim it": {func(w *env) {
			twin := proto.CloneOf(w.snapshots["n1"][0])
			twin.Manifest.PoolId = "pool-n2"
			w.snapshots["n2"] = append(w.snapshots["n2"], twin)
			w.items["n2"] = append(w.items["n2"], snapshotItem("hs-00000000-0000-4000-8000-000000000001"))
		}, "nodes n1 and n2 both say"},
		"another has its name":                         {func(w *env) { w.snapshots["n1"][0].Manifest.Name = "snap-77" }, "has its name"},
		"it is not whole":                              {func(w *env) { w.snapshots["n1"][0].SizeBytes = 4096 }, "not whole"},
		"its manifest is of another build, or flipped": {func(w *env) { w.snapshots["n1"][0].Manifest = nil }, "nothing says what it is"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newEnv(t, "n1", "n2")
			id := w.create(1, true)
			v, _ := w.state.Volume(id)
			if v.Replicas[0].Node != "n1" {
				t.Fatal("the first volume is placed on n1")
			}
			w.takeSnapshot(77, id)
			backup := w.state.Fork()
			w.takeSnapshot(1, id)
			w.keepManifests()
			w.restore(backup)
			tc.change(w)
			for range 2 {
				plan := w.carryOutAdoption(adoptRequest(2))
				require.Contains(t, planText(plan), map[bool]string{true: "follows leave snap-1@n1", false: "follows leave " + w.snapshots["n1"][0].GetManifest().GetName() + "@n1"}[name == "two hosts claim it"])
				require.Contains(t, details(plan), tc.why)
				_, known := w.state.Snapshot("hs-00000000-0000-4000-8000-000000000001")
				require.False(t, known)
			}
			n, _ := w.state.Node("n1")
			require.EqualValues(t, 2, n.Incarnation, "nothing of it is in its host's way")
		})
	}
}

// S1, S19: a group snapshot waits for the host of its other member; a host that comes back after the adoption brings it.
// Where that is gone for good, the rest stays as it is.
func TestS1_AGroupSnapshotWaitsForAllHosts(t *testing.T) {
	w := newEnv(t, "n1")
	one, two := w.create(1, true), w.create(2, true)
	backup := w.state.Fork()
	group := w.takeGroup(one, two)
	w.keepManifests()
	other := w.registration("n2")
	late := w.snapshots["n1"][1]
	for _, held := range w.snapshots["n1"] {
		held.Manifest.Group.Members[1].NodeId, held.Manifest.Group.Members[1].HostId = "n2", other.GetHostId()
	}
	w.snapshots["n1"] = w.snapshots["n1"][:1]
	w.dropImage(fsm.SnapshotID(late.GetManifest().GetSnapshotId()))
	w.restore(backup)
	other.Incarnation = 1
	w.mustApply(&fsmpb.Command{Actor: "node/n2", Body: &fsmpb.Command_RegisterNode{RegisterNode: other}})
	w.unreachable["n2"] = errors.New("no session")
	require.Equal(t, []string{"waiting adopt-snapshot group-1@n1", "waiting adopt-node @n1", "waiting adopt-node @n2"}, planText(w.plan(adoptRequest(2))))
	req := adoptRequest(2)
	req.Without = []string{"n2"}
	plan := w.plan(req)
	require.Equal(t, []string{"follows leave group-1@n1", "todo adopt-node @n1", "waiting adopt-node @n2"}, planText(plan))
	require.Contains(t, details(plan), "1 of its 2 members are not there")
	w.carryOutAdoption(req)

	w.unreachable = map[fsm.NodeID]error{}
	late.Manifest.PoolId = other.GetPools()[0].GetPoolId()
	w.snapshots["n2"] = []*fsmpb.HeldSnapshot{late}
	w.items["n2"] = []Item{snapshotItem(fsm.SnapshotID(late.GetManifest().GetSnapshotId()))}
	require.Equal(t, []string{"todo adopt-snapshot group-1@n1", "done adopt-node @n1", "todo adopt-node @n2"}, planText(w.plan(adoptRequest(2))))
	w.carryOutAdoption(adoptRequest(2))
	g, ok := w.state.GroupSnapshot(group)
	require.True(t, ok)
	require.Equal(t, fsm.GroupReady, g.Phase)
}

// S1, S19: this log saw the group begin, and the restore gave it up: its host is not adopted before it, for it would remove
// the members.
func TestS1_AHostWaitsForASnapshotThatThisLogSawBegin(t *testing.T) {
	w := newEnv(t, "n1")
	one := w.create(1, true)
	w.snapshot(one, false)
	backup := w.state.Fork()
	w.observe(&fsmpb.Observation{VolumeId: string(one), SnapshotId: snapshotOne, Sequence: 1, Fact: &fsmpb.Observation_SnapshotCut{
		SnapshotCut: &fsmpb.SnapshotCut{SizeBytes: 1 << 30, CutUnixNano: 1}}})
	w.keepManifests()
	w.restore(backup)
	require.Equal(t, []string{"todo adopt-snapshot snap-1@n1", "todo adopt-node @n1"}, planText(w.plan(adoptRequest(2))))
	w.snapshots["n1"][0].SizeBytes = 4096
	require.Equal(t, []string{"blocked adopt-snapshot snap-1@n1", "waiting adopt-node @n1"}, planText(w.plan(adoptRequest(2))))
}

// S1: what hosts know of volume groups and of replication between sites is not taken in, and the plan says so of each volume,
// with what comes next; once the group is made again the row is gone.
func TestS1_AdoptSaysWhichGroupsAreToBeMadeAgain(t *testing.T) {
	w := newEnv(t, "n1")
	one := w.create(1, true)
	backup := w.state.Fork()
	two := w.create(2, true)
	create := func() {
		w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_CreateVolumeGroup{CreateVolumeGroup: &fsmpb.CreateVolumeGroup{
			VolumeGroupId: "hg-00000000-0000-4000-8000-000000000001", Name: "db", VolumeIds: []string{string(one), string(two)}, MaxVolumes: 9}}})
	}
	create()
	w.keepManifests()
	w.held["n1"][0].Manifest.RelatedSites = []string{"A", "B"}
	w.restore(backup)
	plan := w.plan(adoptRequest(2))
	require.Equal(t, []string{"todo adopt pvc-2@n1", "follows regroup pvc-1@n1", "follows replicate-again pvc-1@n1", "follows regroup pvc-2@n1", "todo adopt-node @n1"}, planText(plan))
	require.Contains(t, details(plan), "the orchestrator creates the group again")
	require.Contains(t, details(plan), "between the sites A and B")
	for range 2 {
		w.carryOutAdoption(adoptRequest(2))
	}
	_, known := w.state.VolumeGroup("hg-00000000-0000-4000-8000-000000000001")
	require.False(t, known)
	create()
	require.Equal(t, []string{"follows replicate-again pvc-1@n1", "done adopt-node @n1"}, planText(w.plan(adoptRequest(2))))
}
