package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func kindsOf(v *Volume) (kinds []OperationKind) {
	for _, op := range v.Operations() {
		kinds = append(kinds, op.Kind)
	}
	return kinds
}

// S73: new limits have an operation of their own beside what a host owes that is away; each
// is told, retried, failed and ended for itself.
func TestS73_LimitsHaveAnOperationBesideATeardown(t *testing.T) {
	w := lostHolder(t)
	c := &fsmpb.ModifyVolume{VolumeId: volumeID(1), Limits: &fsmpb.Limits{ReadIops: 100}}
	id := w.twice(controller, c).GetOperationId()
	require.Equal(t, []OperationKind{OpTeardown, OpModify}, kindsOf(w.volume(1)))
	require.Equal(t, id, uint64(w.volume(1).OperationOf(OpModify).ID))
	found, ok := w.s.Operation(OperationID(id))
	require.True(t, ok && found.ID == w.volume(1).ID)
	away, _ := w.s.Wish("n1", w.volume(1).ID)
	require.Equal(t, w.volume(1).OperationOf(OpTeardown).ID, away.Operation)
	here, _ := w.s.Wish("n2", w.volume(1).ID)
	require.Equal(t, []OperationID{OperationID(id), OperationID(id)}, []OperationID{here.Operation, here.Modify})

	fails := func(node string, op OperationID) {
		w.report(node, stepFailedOf(1, &fsmpb.StepFailed{Step: "change", Error: "no cgroup", Final: true, OperationId: uint64(op)}))
	}
	fails("n2", w.volume(1).OperationOf(OpTeardown).ID)
	require.Equal(t, OpRunning, w.volume(1).OperationOf(OpTeardown).State, "n2 owes nothing of it")
	fails("n2", OperationID(id))
	require.Equal(t, []OperationState{OpRunning, OpFailed}, []OperationState{w.volume(1).OperationOf(OpTeardown).State, w.volume(1).OperationOf(OpModify).State})
	w.ok(admin, &fsmpb.RetryOperation{OperationId: id})
	require.Equal(t, OpRunning, w.volume(1).OperationOf(OpModify).State)
	w.no(Precondition, admin, &fsmpb.CancelOperation{OperationId: id})
	w.report("n2", limited(1, c.Limits))
	require.Equal(t, []OperationKind{OpTeardown}, kindsOf(w.volume(1)))
}

// What level 1 put off while a teardown had the only place goes on at level 2.
func TestWhatLevel1PutOffGoesOnAtLevel2(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	p := w.staged(1, "n1", 1)
	op := w.ok(controller, expand(1, 2*gib, 0)).GetOperationId()
	w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"})
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	require.Equal(t, []OperationKind{OpTeardown}, kindsOf(w.volume(1)))
	w.ok(admin, &fsmpb.SetFeatureLevel{Level: Level2})
	w.ok("node/n1", register("n1"))
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: p.Epoch.proto(), Sequence: 2, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	require.Equal(t, []any{OpExpand, op}, []any{w.volume(1).Operation.Kind, uint64(w.volume(1).Operation.ID)})
}
