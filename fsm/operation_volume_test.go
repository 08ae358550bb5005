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

// S73: new limits are an operation of their own, concurrent with one that is pending on
// an unreachable host; each is shown, retried, failed and ended by itself.
func TestS73_ModifyHasAnOperationDuringATeardown(t *testing.T) {
	w := newLostHost(t)
	c := &fsmpb.ModifyVolume{VolumeId: volumeID(1), Limits: &fsmpb.Limits{ReadIops: 100}}
	id := w.twice(controller, c).GetOperationId()
	require.Equal(t, []OperationKind{OpTeardown, OpModify}, kindsOf(w.volume(1)))
	require.Equal(t, id, uint64(w.volume(1).OperationOf(OpModify).ID))
	found, ok := w.s.Operation(OperationID(id))
	require.True(t, ok && found.ID == w.volume(1).ID)
	away, _ := w.s.DesiredVolume("n1", w.volume(1).ID)
	require.Equal(t, w.volume(1).OperationOf(OpTeardown).ID, away.Operation)
	here, _ := w.s.DesiredVolume("n2", w.volume(1).ID)
	require.Equal(t, []OperationID{OperationID(id), OperationID(id)}, []OperationID{here.Operation, here.ModifyOperation})

	fails := func(node string, op OperationID) {
		w.report(node, stepFailedOf(1, &fsmpb.StepFailed{Step: "change", Error: "no cgroup", Final: true, OperationId: uint64(op)}))
	}
	fails("n2", w.volume(1).OperationOf(OpTeardown).ID)
	require.Equal(t, OpRunning, w.volume(1).OperationOf(OpTeardown).State, "no teardown is pending on n2")
	fails("n2", OperationID(id))
	require.Equal(t, []OperationState{OpRunning, OpFailed}, []OperationState{w.volume(1).OperationOf(OpTeardown).State, w.volume(1).OperationOf(OpModify).State})
	w.ok(admin, &fsmpb.RetryOperation{OperationId: id})
	require.Equal(t, OpRunning, w.volume(1).OperationOf(OpModify).State)
	w.rejected(Precondition, admin, &fsmpb.CancelOperation{OperationId: id})
	w.report("n2", limitsAppliedObservation(1, c.Limits))
	require.Equal(t, []OperationKind{OpTeardown}, kindsOf(w.volume(1)))
}

// An expansion, new limits and the removal of a replica run concurrently.
func TestOperationsOfSeveralKindsRunSideBySide(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.ok("node/n1", w.stage(1, "n1", 1))
	c := &fsmpb.ModifyVolume{VolumeId: volumeID(1), Limits: &fsmpb.Limits{ReadIops: 100}}
	w.twice(controller, removeReplica("n2"))
	w.setUnreachable("n2", true)
	w.twice(controller, c)
	w.twice(controller, expandVolume(1, 2*gib, 0))
	require.Equal(t, []OperationKind{OpExpand, OpModify, OpReplicaChange}, kindsOf(w.volume(1)))
	w.rejected(Busy, controller, expandVolume(1, 3*gib, 0))
	w.rejected(Busy, controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
	desired, _ := w.s.DesiredVolume("n1", w.volume(1).ID)
	require.Equal(t, w.volume(1).OperationOf(OpExpand).ID, desired.Operation)
	w.report("n1", grownObservation(1, 2*gib))
	require.Equal(t, []OperationKind{OpModify, OpReplicaChange}, kindsOf(w.volume(1)))
	w.report("n1", limitsAppliedObservation(1, c.Limits))
	w.setUnreachable("n2", false)
	w.report("n2", deviceGone(1))
	require.Empty(t, w.volume(1).Operations())
	require.Nil(t, w.volume(1).Operation)
}

// What level 1 put off while a teardown was the volume's one operation continues at level
// 2.
func TestWorkDeferredAtLevel1ContinuesAtLevel2(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	p := w.staged(1, "n1", 1)
	op := w.ok(controller, expandVolume(1, 2*gib, 0)).GetOperationId()
	w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"})
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	require.Equal(t, []OperationKind{OpTeardown}, kindsOf(w.volume(1)))
	w.ok(admin, &fsmpb.SetFeatureLevel{Level: Level2})
	w.ok("node/n1", register("n1"))
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: p.Epoch.Proto(), Sequence: 2, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	require.Equal(t, []any{OpExpand, op}, []any{w.volume(1).Operation.Kind, uint64(w.volume(1).Operation.ID)})
}

// S74: a replica that cannot be added leaves neither a record nor a reservation; until its
// host cleaned up, the operation says why.
func TestS74_AReplicaThatCannotBeAddedLeavesNothing(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.loseNode("n2")
	w.ok("node/n3", replicating("n3"))
	id := w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"}).GetOperationId()
	f := finalFailure("create", "the pool is full")
	f.OperationId = id
	w.report("n3", stepFailedOf(1, f), stepFailedOf(1, f))
	op := w.volume(1).Operation
	require.Equal(t, []any{OpReplicaChange, OpRunning, uint32(1), NoCapacity, "the pool is full", id},
		[]any{op.Kind, op.State, op.Attempts, op.Reason, op.LastError, uint64(op.ID)})
	require.Equal(t, GoalRemove, w.volumeGoal(1, "n3"))
	require.Nil(t, w.volume(1).ActiveReplica("host-n3"))
	w.twice(controller, expandVolume(1, 2*gib, 0))
	w.report("n1", grownObservation(1, 2*gib))
	w.report("n3", deviceGone(1))
	require.Empty(t, w.volume(1).Operations())
	require.Len(t, w.volume(1).Replicas, 1)
	reserved, volumes := w.s.PoolUse("pool-n3")
	require.Zero(t, reserved+int64(volumes))
	w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
}

// At feature level 1 the replica stays planned, and an operator retries it.
func TestAtLevel1AReplicaThatCannotBeAddedStaysPlanned(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.loseNode("n2")
	w.ok("node/n3", replicating("n3"))
	w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
	w.report("n3", stepFailedOf(1, finalFailure("create", "the pool is full")))
	require.Equal(t, []any{OpFailed, ReplicaPlanned}, []any{w.volume(1).Operation.State, w.volume(1).Replica("host-n3").State})
}

// newUndersizedReplica is a volume that was expanded while its replica on n2, which is
// unreachable, was being removed, and whose other host is lost.
func newUndersizedReplica(t *testing.T) *world {
	w := newReplicated(t, protocolC)
	w.twice(controller, removeReplica("n2"))
	w.setUnreachable("n2", true)
	w.twice(controller, expandVolume(1, 2*gib, 0))
	w.report("n1", grownObservation(1, 2*gib))
	require.Equal(t, []OperationKind{OpReplicaChange}, kindsOf(w.volume(1)))
	require.Equal(t, gib, w.volume(1).Replica("host-n2").Size)
	w.loseNode("n1")
	w.setUnreachable("n2", false)
	return w
}

// S117, S71: a volume is expanded although the removal of a replica is pending on an
// unreachable host; where that one becomes the last copy, the volume is never smaller
// than was promised.
func TestS117_ARestoredUndersizedReplicaIsExpandedBeforeUse(t *testing.T) {
	w := newUndersizedReplica(t)
	v := w.volume(1)
	require.Equal(t, []any{ReplicaPresent, true, 2 * gib}, []any{v.Replica("host-n2").State, v.Replica("host-n2").Undersized, v.Size})
	require.Equal(t, w.contents(), (&world{s: restored(t, w.s)}).contents())
	require.Equal(t, []OperationKind{OpExpand}, kindsOf(v))
	w.twice(admin, &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: "n2", Reason: "n1 burnt"})
	w.rejected(Busy, controller, publish(1, "n2"))
	op := w.volume(1).Operation
	w.report("n2", stepFailedOf(1, &fsmpb.StepFailed{Step: "change", Error: "the pool is full", Final: true, NoSpace: true, OperationId: uint64(op.ID)}))
	require.Equal(t, []any{2 * gib, OpRunning, "the pool is full"}, []any{w.volume(1).Size, w.volume(1).Operation.State, w.volume(1).Operation.LastError}, "what was promised is not taken back")
	desired, _ := w.s.DesiredVolume("n2", v.ID)
	require.Equal(t, []any{GoalKeep, 2 * gib, op.ID}, []any{desired.Goal, desired.Size, desired.Operation})
	w.report("n2", grownObservation(1, 2*gib))
	require.Empty(t, w.volume(1).Operations())
	require.False(t, w.volume(1).Replica("host-n2").Undersized)
	w.ok(controller, publish(1, "n2"))
}

// S117: the planted bug: a replica takes part again without being expanded.
func TestS117_CheckFindsAnUndersizedReplicaThatNobodyExpands(t *testing.T) {
	for name, plant := range map[string]func(*Volume){
		"nobody is asked":      func(v *Volume) { v.endOperation(OpExpand) },
		"it failed":            func(v *Volume) { v.Operation = &Operation{ID: v.Operation.ID, Kind: OpExpand, State: OpFailed} },
		"it is used":           func(v *Volume) { *v = v.withPublication(Publication{Node: "n2", Host: "host-n2", Epoch: Epoch{1, 5}}) },
		"it is not short more": func(v *Volume) { v.Size = gib },
	} {
		t.Run(name, func(t *testing.T) {
			w := newUndersizedReplica(t)
			require.NoError(t, w.s.Check())
			v := *w.volume(1)
			plant(&v)
			require.ErrorContains(t, checkGrowth(&v), "S117")
		})
	}
}

// Operations that many volumes begin in one entry have ids of their own (S110).
func TestS110_OneLostHostExpandsManyReplicas(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.readyReplicated(2, createReplicated(2, protocolC))
	for n := 1; n <= 2; n++ {
		c := removeReplica("n2")
		c.VolumeId = volumeID(n)
		w.twice(controller, c)
		w.twice(controller, expandVolume(n, 2*gib, 0))
		w.report("n1", grownObservation(n, 2*gib))
	}
	w.loseNode("n1")
	require.NoError(t, w.s.Check())
	require.NotEqual(t, w.volume(1).OperationOf(OpExpand).ID, w.volume(2).OperationOf(OpExpand).ID)
}

// At feature level 1 a replica that is being removed keeps its volume from being
// expanded.
func TestAtLevel1ALeavingReplicaBlocksAnExpansion(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	w.twice(controller, removeReplica("n2"))
	w.rejected(Busy, controller, expandVolume(1, 2*gib, 0))
}

// A replica that is being created keeps the volume from being expanded, and so does a
// teardown that is pending on one of its hosts.
func TestWhatBlocksAnExpansion(t *testing.T) {
	w := replaced(t)
	w.rejected(Busy, controller, expandVolume(1, 2*gib, 0))
	synchronised(w, "n3", "n1")
	require.Equal(t, ReplicaLeaving, w.volume(1).Replica("host-n2").State)
	w.twice(controller, expandVolume(1, 2*gib, 0))
	w = newLostHost(t)
	w.rejected(Busy, controller, expandVolume(1, 2*gib, 0))
}
