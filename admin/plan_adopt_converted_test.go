package admin

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// convertedAfterBackup is restored from a backup that has the volume plain on n1, which burnt; the lost log converted it, with its
// other replica on n2. done: the conversion was over.
func convertedAfterBackup(t *testing.T, done bool) (*env, fsm.VolumeID) {
	w := newSitesEnv(t)
	id := w.plainAt(1)
	backup := w.state.Fork()
	w.mustApply(&fsmpb.Command{Actor: "controller/cA", Site: "A", Body: &fsmpb.Command_EnableReplication{EnableReplication: &fsmpb.EnableReplication{
		Source: &fsmpb.ReplicationSource{VolumeId: string(id)}, PeerSite: "B"}}})
	w.attach("n2", id)
	if done {
		w.mustApply(&fsmpb.Command{Actor: "node/n1", Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
			VolumeId: string(id), NodeId: "n1", HostId: "host-n1", BootId: "boot", Attach: 1}}})
		seen := w.seen(id, fsmpb.ConnectionState_CONNECTION_STATE_SYNC_SOURCE)
		w.reportReplica("n1", id, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: seen.Proto()}})
		w.connectReplicas(id, "n1", "n2")
		require.Nil(t, w.volume(id).Replication.Conversion)
	}
	w.keepManifests()
	w.restore(backup)
	w.unreachable["n1"] = errors.New("no session")
	w.setUnreachable("n1")
	return w, id
}

func loseN1() *adminpb.PlanRequest {
	return &adminpb.PlanRequest{Verb: "lost", Node: "n1", HostId: "host-n1", Reason: "burnt"}
}

// S1, S71: a volume that was converted after the backup, and whose first host burnt: the plan says what to do, nothing gives
// that host up but the verb for it, and then the other replica is adopted. Each is asked twice.
func TestS1_AdoptTakesAConvertedVolumeFromItsSecondHost(t *testing.T) {
	w, id := convertedAfterBackup(t, true)
	without := adoptRequest(2)
	without.Without = []string{"n1"}
	for range 2 {
		plan := w.plan(adoptRequest(2))
		require.Equal(t, []string{"waiting adopt pvc-1@n2", "follows replicate-again pvc-1@n2", "waiting adopt-node @n1", "waiting adopt-node @n2"}, planText(plan))
		require.Contains(t, plan.GetSteps()[0].GetDetail(), "`holdfast nodes lost n1`")
		plan = w.plan(without)
		require.Equal(t, "blocked adopt pvc-1@n2", planText(plan)[0], "the word for this plan gives up no host that the log has it on")
		require.Contains(t, plan.GetSteps()[0].GetDetail(), "`holdfast nodes lost n1`")
		w.carryOutAdoption(without)
		require.Nil(t, w.volume(id).Replication)
	}
	require.Contains(t, w.plan(loseN1()).String(), "unless it was replicated after the backup")
	w.carryOut(loseN1())
	for range 2 {
		plan := w.plan(adoptRequest(2))
		require.Equal(t, "todo adopt pvc-1@n2", planText(plan)[0])
		require.Contains(t, plan.GetSteps()[0].GetDetail(), "force-primary")
	}
	w.carryOutAdoption(adoptRequest(2))
	v := w.volume(id)
	require.IsType(t, fsm.Ready{}, v.Phase)
	require.Len(t, v.ActiveReplicas(), 1)
	require.Equal(t, fsm.NodeID("n2"), v.Replicas[0].Node)
	require.NotContains(t, planText(w.plan(adoptRequest(2))), "todo adopt pvc-1@n2")
	w.carryOutAdoption(adoptRequest(2))
	require.Equal(t, v.Modified, w.volume(id).Modified)
}

// S1, S55: what is not known to be whole is a row of the plan, with what can be done: it is neither taken nor passed over.
func TestS1_S55_AdoptShowsASecondReplicaThatItCannotTake(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(*env)
		row, says string
	}{
		"the conversion was under way": {change: func(*env) {}, row: "blocked adopt pvc-1@n2", says: "copy what its device has to a new volume"},
		"its host says nothing of it":  {change: func(w *env) { w.held["n2"] = nil }, row: "follows leave pvc-1@n2", says: "look at what the device has"},
	} {
		t.Run(name, func(t *testing.T) {
			w, id := convertedAfterBackup(t, false)
			tc.change(w)
			w.carryOut(loseN1())
			for range 2 {
				plan := w.plan(adoptRequest(2))
				require.Equal(t, tc.row, planText(plan)[0])
				require.Contains(t, plan.GetSteps()[0].GetDetail(), tc.says)
				w.carryOutAdoption(adoptRequest(2))
				require.IsType(t, fsm.Failed{}, w.volume(id).Phase)
			}
		})
	}
}
