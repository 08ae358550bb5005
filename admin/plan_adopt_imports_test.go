package admin

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// importGivenBack is restored to the middle of an import, of which its host says that it became ready and was given back.
func importGivenBack(t *testing.T) (*env, *fsm.Volume) {
	w := newImportEnv(t)
	n, _ := w.state.Node("n1")
	w.mustApply(&fsmpb.Command{Actor: "admin/a", Body: &fsmpb.Command_ImportVolume{ImportVolume: &fsmpb.ImportVolume{
		VolumeId: "hf-00000000-0000-4000-8000-000000000007", Name: "data", NodeId: "n1", HostId: string(n.Host), PoolId: string(n.Pools[0].ID),
		DeviceId: "uuid-1", DeviceName: "data_00000", SizeBytes: 20 << 20, FsType: "ext4", FsUuid: importFSUUID,
	}}})
	v := w.state.VolumeNamed("data")
	backup := w.state.Fork()
	w.observe(&fsmpb.Observation{VolumeId: string(v.ID), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}}})
	w.keepManifests()
	w.restore(backup)
	return w, v
}

// S1, S14: what a host gave back after the backup is of others by now: its import is deleted before the host acts, and
// nothing is taken in again.
func TestS14_AnImportThatWasGivenBackIsNotTakenInAgain(t *testing.T) {
	w, v := importGivenBack(t)
	require.Equal(t, []string{"todo adopt data@n1", "todo adopt-node @n1"}, planText(w.plan(adoptRequest(2))), "its host has it")
	w.remove("n1", v.ID, true)
	for range 2 {
		require.Equal(t, []string{"todo delete data@n1", "todo adopt-node @n1"}, planText(w.plan(adoptRequest(2))))
	}
	w.carryOutAdoption(adoptRequest(2))
	d, known := w.state.DesiredVolume("n1", v.ID)
	require.True(t, known)
	require.Equal(t, fsm.GoalRemove, d.Goal)
	require.Equal(t, "uuid-1", d.ImportDevice, "given back, which it is already")
	require.Equal(t, []string{"done adopt-node @n1"}, planText(w.plan(adoptRequest(2))))
}

// An import that no host says the end of goes on; one that another host may have keeps its host waiting.
func TestS14_AnImportThatMayBeUnderWayIsNotDeleted(t *testing.T) {
	w, v := importGivenBack(t)
	w.remove("n1", v.ID, false)
	require.Equal(t, []string{"todo adopt-node @n1"}, planText(w.plan(adoptRequest(2))))

	w, v = importGivenBack(t)
	w.remove("n1", v.ID, true)
	w.mustApply(&fsmpb.Command{Actor: "node/n2", Body: &fsmpb.Command_RegisterNode{RegisterNode: w.registration("n2")}})
	w.unreachable["n2"] = errors.New("no session")
	for range 2 {
		plan := planText(w.plan(adoptRequest(2)))
		require.Contains(t, plan, "waiting delete data@n1")
		require.Contains(t, plan, "waiting adopt-node @n1")
		w.carryOutAdoption(adoptRequest(2))
	}
	d, _ := w.state.DesiredVolume("n1", v.ID)
	require.Equal(t, fsm.GoalKeep, d.Goal)
}
