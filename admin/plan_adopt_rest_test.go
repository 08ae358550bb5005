package admin

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// S14: while any host does not answer, what no other one has may have moved there: it is not deleted, not even at an
// operator's word.
func TestS14_NothingIsMissingWhileAHostDoesNotAnswer(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.create(1, true)
	v, _ := w.state.Volume(id)
	own := v.Replicas[0].Node
	other := map[fsm.NodeID]fsm.NodeID{"n1": "n2", "n2": "n1"}[own]
	backup := w.state.Fork()
	w.keepManifests()
	w.remove(own, id, true)
	w.restore(backup)
	w.unreachable[other] = errors.New("no session")
	req := adoptRequest(2)
	req.ForgetMissing = true
	for range 2 {
		require.NotContains(t, planText(w.plan(req)), "todo delete pvc-1@"+string(own))
		w.carryOutAdoption(req)
		v, _ = w.state.Volume(id)
		require.IsType(t, fsm.Ready{}, v.Phase)
	}
}

// S71: that a host removed a replica as the log said does not say that the volume was deleted: another replica may have
// taken its place.
func TestS71_AReplicatedVolumeIsMissingAtAnOperatorsWordOnly(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	id := w.replicate(1)
	backup := w.state.Fork()
	w.keepManifests()
	w.remove("n1", id, true)
	w.remove("n2", id, true)
	w.restore(backup)
	require.Equal(t, []string{"blocked delete pvc-1@n1", "todo adopt-node @n1", "todo adopt-node @n2"}, planText(w.plan(adoptRequest(2))))
	req := adoptRequest(2)
	req.ForgetMissing = true
	require.Equal(t, []string{"todo delete pvc-1@n1", "todo adopt-node @n1", "todo adopt-node @n2"}, planText(w.plan(req)))
}
