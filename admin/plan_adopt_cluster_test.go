package admin

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// keepManifests has the hosts hold what the log says of the volumes that they have.
func (w *env) keepManifests() {
	w.t.Helper()
	c := w.state.Cluster()
	w.held, w.snapshots = map[fsm.NodeID][]*fsmpb.HeldVolume{}, map[fsm.NodeID][]*fsmpb.HeldSnapshot{}
	for n := range w.state.Nodes() {
		for d := range w.state.DesiredSnapshots(n.ID) {
			held := &fsmpb.HeldSnapshot{Manifest: &fsmpb.SnapshotManifest{}, At: fsm.Epoch{Incarnation: c.Incarnation, Index: c.Index}.Proto(), SizeBytes: d.Size}
			require.NoError(w.t, proto.Unmarshal([]byte(d.Manifest), held.Manifest))
			w.snapshots[n.ID] = append(w.snapshots[n.ID], held)
			w.items[n.ID] = append(w.items[n.ID], snapshotItem(d.Snapshot))
		}
		for d := range w.state.DesiredVolumes(n.ID) {
			held := &fsmpb.HeldVolume{Manifest: &fsmpb.VolumeManifest{}, At: fsm.Epoch{Incarnation: c.Incarnation, Index: c.Index}.Proto(), SizeBytes: d.Size}
			require.NoError(w.t, proto.Unmarshal([]byte(d.Manifest), held.Manifest))
			if p := d.Publication; p != nil && p.Staging != nil {
				held.Staged = p.Epoch.Proto()
			}
			w.held[n.ID] = append(w.held[n.ID], held)
			w.items[n.ID] = append(w.items[n.ID], imageItem(d.Volume))
		}
	}
}

// remove has a host say that it removed the volume at the log's word, or say nothing of it.
func (w *env) remove(node fsm.NodeID, id fsm.VolumeID, said bool) {
	w.items[node] = slices.DeleteFunc(w.items[node], func(i Item) bool { return i.ID == id })
	for i, held := range w.held[node] {
		if held.GetManifest().GetVolumeId() == string(id) {
			held.Removed, held.SizeBytes = true, 0
			if !said {
				w.held[node] = slices.Delete(w.held[node], i, i+1)
			}
			return
		}
	}
}

// restore goes on from a backup of before, in the next incarnation.
func (w *env) restore(backup *fsm.State) {
	w.t.Helper()
	w.state, w.index = backup, backup.Cluster().Index
	w.mustApply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_ReplaceIncarnation{ReplaceIncarnation: &fsmpb.ReplaceIncarnation{
		Counter: backup.Cluster().Incarnation + 1, IncarnationId: []byte("0123456789abcdef")}}})
}

func adoptRequest(incarnation uint64) *adminpb.PlanRequest {
	return &adminpb.PlanRequest{Verb: adoptCluster, Incarnation: incarnation}
}

func (w *env) carryOutAdoption(req *adminpb.PlanRequest) *adminpb.PlanResponse {
	w.t.Helper()
	resp, err := w.server.CarryOut(context.Background(), req)
	require.NoError(w.t, err)
	require.NoError(w.t, w.state.Check())
	return resp
}

// S1: what hosts know and the restored log does not is shown, and taken in for the incarnation that was shown only; what
// nothing explains stays as it is.
func TestS1_AdoptShowsWhatHostsKnowAndTakesItIn(t *testing.T) {
	w := newReplicatedEnv(t, "n1")
	known, deleted, vanished := w.create(1, true), w.create(2, true), w.create(3, true)
	w.publish(deleted)
	backup := w.state.Fork()
	newer := w.create(4, true)
	w.stage(newer, "/stage/4")
	w.stage(known, "/stage/1")
	w.keepManifests()
	want, _ := w.state.Volume(newer)
	w.remove("n1", deleted, true)
	w.remove("n1", vanished, false)
	orphan := fsm.VolumeID("hf-00000000-0000-4000-8000-000000000009")
	w.items["n1"] = append(w.items["n1"], imageItem(orphan))
	w.restore(backup)

	plan := w.plan(adoptRequest(0))
	require.EqualValues(t, 2, plan.GetIncarnation())
	require.Equal(t, []string{
		"todo adopt pvc-1@n1", "todo adopt pvc-4@n1", "todo unpublish pvc-2@n1", "todo delete pvc-2@n1", "blocked delete pvc-3@n1",
		"follows leave @n1", "todo adopt-node @n1",
	}, planText(plan))
	for _, n := range []uint64{0, 1, 3} {
		_, err := w.server.CarryOut(context.Background(), adoptRequest(n))
		require.Equal(t, map[bool]codes.Code{true: codes.InvalidArgument, false: codes.FailedPrecondition}[n == 0], status.Code(err), err)
	}
	resp := w.carryOutAdoption(adoptRequest(2))
	require.EqualValues(t, 1, resp.GetBlocked())
	got, _ := w.state.Volume(newer)
	require.Equal(t, want.Publications(), got.Publications())
	require.Equal(t, want.Format, got.Format)
	require.Equal(t, want.Name, got.Name)
	again := w.plan(adoptRequest(2))
	require.Equal(t, []string{"follows leave @n1", "done adopt-node @n1"}, planText(again), "what is missing on an adopted host is the audit's")
	require.True(t, again.GetDone())
	w.carryOutAdoption(adoptRequest(2))
}

// S1: an operator's word that what no host has was deleted.
func TestS1_AdoptForgetsWhatIsMissingAtAnOperatorsWordOnly(t *testing.T) {
	w := newReplicatedEnv(t, "n1")
	id := w.create(1, true)
	backup := w.state.Fork()
	w.keepManifests()
	w.remove("n1", id, false)
	w.restore(backup)
	require.Equal(t, []string{"blocked delete pvc-1@n1", "todo adopt-node @n1"}, planText(w.plan(adoptRequest(2))))
	req := adoptRequest(2)
	req.ForgetMissing = true
	require.Equal(t, []string{"todo delete pvc-1@n1", "todo adopt-node @n1"}, planText(w.plan(req)))
	w.carryOutAdoption(req)
	v, _ := w.state.Volume(id)
	require.IsType(t, fsm.Deleting{}, v.Phase)
}

// S1: a replicated volume waits for the host of its other replica, and its own host with it, unless that is gone for good.
func TestS1_AdoptWaitsForTheOtherReplica(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	backup := w.state.Fork()
	id := w.replicate(1)
	w.keepManifests()
	w.restore(backup)
	w.unreachable["n2"] = errors.New("no session")
	require.Equal(t, []string{"waiting adopt pvc-1@n1", "waiting adopt-node @n1", "waiting adopt-node @n2"}, planText(w.plan(adoptRequest(2))))
	w.carryOutAdoption(adoptRequest(2))
	_, known := w.state.Volume(id)
	require.False(t, known)
	req := adoptRequest(2)
	req.Without = []string{"n2"}
	require.Equal(t, []string{"todo adopt pvc-1@n1", "todo adopt-node @n1", "waiting adopt-node @n2"}, planText(w.plan(req)))
	w.unreachable = map[fsm.NodeID]error{}
	require.Equal(t, []string{"todo adopt pvc-1@n1", "todo adopt-node @n1", "todo adopt-node @n2"}, planText(w.plan(adoptRequest(2))))
	w.carryOutAdoption(adoptRequest(2))
	v, _ := w.state.Volume(id)
	require.Len(t, v.ActiveReplicas(), 2)
}

// S1: a host met a later life of the cluster than the one that was restored: that takes a still later one first.
func TestS1_AdoptReplacesAnIncarnationThatIsBelowAHosts(t *testing.T) {
	w := newReplicatedEnv(t, "n1")
	backup := w.state.Fork()
	w.restore(backup)
	n := w.registration("n2")
	n.Incarnation = 7
	w.mustApply(&fsmpb.Command{Actor: "node/n2", Body: &fsmpb.Command_RegisterNode{RegisterNode: n}})
	require.Equal(t, []string{"todo replace-incarnation @"}, planText(w.plan(adoptRequest(2))))
	w.carryOutAdoption(adoptRequest(2))
	require.EqualValues(t, 8, w.state.Cluster().Incarnation)
	require.Equal(t, []string{"todo adopt-node @n1", "todo adopt-node @n2"}, planText(w.plan(adoptRequest(0))))
}

// S14, S71: a volume that another host holds is not missing, whatever its own hosts say; and a host whose volume could not
// be adopted is not adopted either.
func TestS1_AVolumeThatMovedIsNotDeletedAndItsHostWaits(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.create(1, true)
	backup := w.state.Fork()
	w.keepManifests()
	from := w.held["n1"]
	other := "n2"
	if len(from) == 0 {
		from, other = w.held["n2"], "n1"
	}
	moved := proto.CloneOf(from[0])
	moved.Manifest.PoolId = "pool-" + other
	own := map[string]fsm.NodeID{"n1": "n2", "n2": "n1"}[other]
	w.remove(own, id, true)
	w.held[fsm.NodeID(other)] = append(w.held[fsm.NodeID(other)], moved)
	w.items[fsm.NodeID(other)] = append(w.items[fsm.NodeID(other)], imageItem(id))
	w.restore(backup)
	for _, step := range w.plan(adoptRequest(2)).GetSteps() {
		require.NotEqual(t, "delete", step.GetAction())
		if step.GetNode() == other {
			require.Contains(t, []string{"blocked", "waiting"}, step.GetState(), step)
		}
	}
}

// S72: a backup of below feature level 3 adopts no volume, which the plan says before anything is carried out.
func TestS72_ThePlanSaysThatAdoptionNeedsAFeatureLevel(t *testing.T) {
	lost := newReplicatedEnv(t, "n1")
	lost.create(1, true)
	lost.keepManifests()
	w := newEnvAtLevel(t, fsm.Level3-1, map[string]uint32{"n1": fsm.MaxFeatureLevel})
	w.restore(w.state.Fork())
	w.held, w.items = lost.held, lost.items
	for range 2 {
		plan := w.plan(adoptRequest(2))
		require.Equal(t, []string{"blocked adopt pvc-1@n1", "waiting adopt-node @n1"}, planText(plan))
		require.Contains(t, plan.GetSteps()[0].GetDetail(), "needs feature level 3")
	}
}
