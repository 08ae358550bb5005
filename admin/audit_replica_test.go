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

func resourceItem(id fsm.VolumeID) Item {
	return Item{Kind: "resource", ID: id, Path: "/etc/drbd.d/" + string(id) + ".res"}
}

// replicaItems is the inventory of a host with a replica of a replicated volume.
func replicaItems(id fsm.VolumeID, more ...Item) []Item {
	return append([]Item{imageItem(id), resourceItem(id), {Kind: "loop", ID: id, Path: "/dev/loop0"}}, more...)
}

func TestAuditOfReplicatedVolumes(t *testing.T) {
	const stranger = fsm.VolumeID("hf-99999999-0000-4000-8000-000000000000")
	for name, tc := range map[string]struct {
		arrange                   func(w *env, id fsm.VolumeID)
		orphans, missing, pending []string
		checked                   uint64
	}{
		"a volume with its devices and resources is clean, published or not": {checked: 2, arrange: func(w *env, id fsm.VolumeID) {
			w.items["n1"], w.items["n2"] = replicaItems(id), replicaItems(id)
			w.publish(id)
		}},
		"TestS14: a resource that the state does not know is an orphan": {checked: 2,
			arrange: func(w *env, id fsm.VolumeID) {
				w.items["n1"], w.items["n2"] = replicaItems(id, resourceItem(stranger)), replicaItems(id)
			},
			orphans: []string{"resource /etc/drbd.d/" + string(stranger) + ".res"}},
		"a resource of a volume with one replica is an orphan": {checked: 3,
			arrange: func(w *env, id fsm.VolumeID) {
				local := w.create(2, false) // n3 has the most free space
				w.reportReplica("n3", local, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
				w.items["n1"], w.items["n2"], w.items["n3"] = replicaItems(id), replicaItems(id), []Item{imageItem(local), resourceItem(local)}
			},
			orphans: []string{"resource /etc/drbd.d/hf-00000000-0000-4000-8000-000000000002.res"}},
		"a second loop device is an orphan": {checked: 2,
			arrange: func(w *env, id fsm.VolumeID) {
				w.items["n1"], w.items["n2"] = replicaItems(id, Item{Kind: "loop", ID: id, Path: "/dev/loop1"}), replicaItems(id)
			},
			orphans: []string{"loop /dev/loop1"}},
		"a replica without its device and resource misses both": {checked: 2,
			arrange: func(w *env, id fsm.VolumeID) { w.items["n1"] = replicaItems(id) },
			missing: []string{"image volumes/hf-00000000-0000-4000-8000-000000000001.img", "resource "}},
		"a resource that its host took down is not missed": {checked: 2,
			arrange: func(w *env, id fsm.VolumeID) {
				w.items["n1"], w.items["n2"] = replicaItems(id), []Item{imageItem(id)}
				down := fsm.ReplicaObservation{Boot: "boot", Attachment: 1, Unconfigured: true, Generation: w.volume(id).Replication.Generation}
				w.reportReplica("n2", id, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: down.Proto()}})
			}},
		"a replica that is given up is pending until it is removed": {checked: 3,
			arrange: func(w *env, id fsm.VolumeID) {
				w.items["n1"], w.items["n2"] = replicaItems(id), replicaItems(id)
				w.moveReplica(id)
			},
			pending: []string{
				"image /pool/volumes/hf-00000000-0000-4000-8000-000000000001.img", "loop /dev/loop0", "resource /etc/drbd.d/hf-00000000-0000-4000-8000-000000000001.res",
				"image volumes/hf-00000000-0000-4000-8000-000000000001.img", // of the new replica, which is not created yet
			}},
		"what is left of it after that is an orphan": {checked: 2,
			arrange: func(w *env, id fsm.VolumeID) {
				w.items["n1"], w.items["n2"], w.items["n3"] = replicaItems(id), []Item{resourceItem(id)}, replicaItems(id)
				w.moveReplica(id)
				w.reportReplica("n2", id, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}})
				w.attach("n3", id)
			},
			orphans: []string{"resource /etc/drbd.d/hf-00000000-0000-4000-8000-000000000001.res"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicatedEnv(t, "n1", "n2")
			id := w.replicate(1)
			w.register("n3")
			tc.arrange(w, id)
			for range 2 {
				resp := w.audit()
				require.ElementsMatch(t, tc.orphans, found(resp.GetOrphans()), "orphans")
				require.ElementsMatch(t, tc.missing, found(resp.GetMissing()), "missing")
				require.ElementsMatch(t, tc.pending, found(resp.GetPending()), "pending")
				require.Equal(t, tc.checked, resp.GetChecked())
			}
		})
	}
}

// moveReplica removes the replica on n2; the new one is planned on n3.
func (w *env) moveReplica(id fsm.VolumeID) {
	w.t.Helper()
	w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_RemoveReplica{RemoveReplica: &fsmpb.RemoveReplica{
		VolumeId: string(id), NodeId: "n2", HostId: "host-n2"}}})
	w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{VolumeId: string(id), NodeId: "n3"}}})
}

func TestReplicasShowLoggedAndObservedState(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	w.create(2, true)
	w.publish(id)
	resp, err := w.server.Volumes(t.Context(), &adminpb.VolumesRequest{})
	require.NoError(t, err)
	v := resp.GetVolumes()[0]
	require.Equal(t, "C", v.GetReplication().GetProtocol())
	require.EqualValues(t, 2, v.GetReplication().GetWanted())
	require.NotZero(t, v.GetReplication().GetMinor())
	require.NotZero(t, v.GetReplication().GetPort())
	require.NotZero(t, v.GetReplication().GetGeneration())
	require.False(t, v.GetAbnormal(), v.GetCondition())
	for i, r := range v.GetReplicas() {
		require.Equal(t, []string{"n1", "n2"}[i], r.GetNode())
		require.Equal(t, "up_to_date connected secondary", r.GetDisk()+" "+r.GetConnection()+" "+r.GetRole())
		require.True(t, r.GetUpToDate())
		require.EqualValues(t, 1, r.GetAttach())
		require.Equal(t, "0000000000000010", r.GetCurrentUuid())
	}
	require.Nil(t, resp.GetVolumes()[1].GetReplication())

	var table, text bytes.Buffer
	require.NoError(t, PrintList(&table, "table", ReplicaList, resp, listing.View{}))
	require.Contains(t, table.String(), "up to date")
	require.Contains(t, table.String(), "GENERATION")
	require.NotContains(t, table.String(), "pvc-2", "it is not replicated")
	require.NoError(t, PrintList(&text, "json", ReplicaList, resp, listing.View{}))
	require.Contains(t, text.String(), `"minor"`)

	w.mustApply(&fsmpb.Command{Actor: "node/n2", Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
		VolumeId: string(id), NodeId: "n2", HostId: "host-n2", BootId: "boot", Attach: 2}}})
	resp, err = w.server.Volumes(t.Context(), &adminpb.VolumesRequest{Volume: "pvc-1"})
	require.NoError(t, err)
	require.True(t, resp.GetVolumes()[0].GetAbnormal())
	require.Contains(t, resp.GetVolumes()[0].GetCondition(), "n2")
}

func TestHistoryShowsOutcomes(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	w.mustApply(&fsmpb.Command{Actor: "node/n2", Body: &fsmpb.Command_Outdate{Outdate: &fsmpb.Outdate{
		VolumeId: string(id), NodeId: "n2", HostId: "host-n2", BootId: "boot", Generation: w.volume(id).Replication.Generation}}})
	entry := entryView(w.log[len(w.log)-1])
	require.Equal(t, "outdate", entry.GetKind())
	require.Equal(t, []string{string(id)}, entry.GetVolumes())
	require.Equal(t, "n2", entry.GetNode())
	var out bytes.Buffer
	require.NoError(t, Print(&out, "table", entry))
	require.Contains(t, out.String(), "refused")
}
