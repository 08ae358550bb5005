package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func finalFailure(step, why string) *fsmpb.StepFailed {
	return &fsmpb.StepFailed{Step: step, Error: why, Final: true, NoSpace: true}
}

// S74: snapshots that failed for good reserve nothing once they were cleaned up, and are
// then forgotten; until then callers that wait find the reason.
func TestS74_FailedSnapshotsLeaveNothing(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	before, _ := w.s.PoolUse("pool-n1")
	for n := 1; n <= 50; n++ {
		c := createSnapshot(n, 1)
		c.Name = "the same"
		w.twice(controller, c)
		w.report("n1", snapshotObservation(n, &fsmpb.StepFailed{Step: "cut", Error: "slow"}))
		require.Equal(t, SnapshotTaking, w.snapshot(n).Phase)
		w.report("n1", snapshotObservation(n, finalFailure("cut", "the pool is full")))
		require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(n))
		op := w.snapshot(n).CreateFailure()
		require.Equal(t, []any{NoCapacity, "the pool is full"}, []any{op.Reason, op.LastError})
		if n%2 == 0 { // the next one does not wait for it
			w.report("n1", goneReport(n, 0), goneReport(n-1, 0))
			require.Equal(t, "the pool is full", w.s.CreateFailure(snapshotID(n)).LastError, "also where the clean-up was quick")
		}
	}
	reserved, _ := w.s.PoolUse("pool-n1")
	require.Equal(t, before, reserved)
	require.Zero(t, w.s.SnapshotCount())
}

// S74: the same of volumes.
func TestS74_FailedVolumesLeaveNothing(t *testing.T) {
	w := newWorld(t)
	for n := 1; n <= 10; n++ {
		c := changed(n, func(c *fsmpb.CreateVolume) { c.Name = "the same" })
		out := w.twice(controller, c)
		require.Equal(t, volumeID(n), out.GetVolumeId(), "a retry starts afresh")
		w.report("n1", &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_StepFailed{StepFailed: finalFailure("create", "the pool is full")}})
		desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(n)))
		require.Equal(t, GoalRemove, desired.Goal)
		op := w.volume(n).CreateFailure()
		require.Equal(t, []any{NoCapacity, "the pool is full", out.GetOperationId()}, []any{op.Reason, op.LastError, uint64(op.ID)})
		w.rejected(NotFound, controller, publish(n, "n1"))
	}
	for n := 1; n <= 10; n++ {
		w.report("n1", deviceGone(n))
	}
	reserved, volumes := w.s.PoolUse("pool-n1")
	require.Zero(t, reserved+int64(volumes))
	require.Zero(t, w.s.VolumeCount())
}

// S74: what an operator cancelled is cleaned up as well.
func TestS74_WhatWasCancelledLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	volume := w.ok(controller, create(2)).GetOperationId()
	snapshot := w.ok(controller, createSnapshot(1, 1)).GetOperationId()
	for _, id := range []uint64{volume, snapshot} {
		w.twice(admin, &fsmpb.CancelOperation{OperationId: id})
	}
	require.Equal(t, Busy, w.volume(2).CreateFailure().Reason)
	require.Equal(t, Busy, w.snapshot(1).CreateFailure().Reason)
	w.report("n1", deviceGone(2), goneReport(1, 0))
	require.Equal(t, []int{1, 0}, []int{w.s.VolumeCount(), w.s.SnapshotCount()})
	w.ok(controller, create(3))
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(3)})
	require.Nil(t, w.volume(3).CreateFailure(), "somebody deleted it")
}

// S74: a host that is lost leaves nothing of what was never created on it; what was Ready
// is reported as lost.
func TestS74_ALostHostLeavesNothingThatWasNeverMade(t *testing.T) {
	w := newWorld(t)
	w.ok("node/n2", replicating("n2"))
	w.ok("node/n3", replicating("n3"))
	w.ready(1, changed(1, func(c *fsmpb.CreateVolume) { c.Requisite = terms("n1") }))
	w.ok(controller, changed(2, func(c *fsmpb.CreateVolume) { c.Requisite = terms("n1") }))
	w.takeSnapshot(1, 1)
	w.ok(controller, createSnapshot(2, 1))
	w.loseNode("n1")
	require.IsType(t, Failed{}, w.volume(1).Phase)
	require.False(t, hasVolume(w, 2))
	require.Equal(t, 1, w.s.SnapshotCount())
	require.True(t, w.snapshot(1).Gone)
	w.ok(controller, createReplicated(3, protocolC))
	w.loseNode("n2")
	require.Contains(t, w.volume(3).CreateFailure().LastError, "burnt")
	w.report("n3", deviceGone(3))
	require.False(t, hasVolume(w, 3))
	for _, n := range []string{"n1", "n2", "n3"} {
		reserved, _ := w.s.PoolUse(PoolID("pool-" + n))
		require.Zero(t, reserved, fmt.Sprint("pool of ", n))
	}
}

// S74: a report that was under way when the create was given up says nothing of the
// removal, which has the same operation id: the removal continues, with the first reason,
// and waits for no operator.
func TestS74_ALateCreateFailureDoesNotFailTheRemoval(t *testing.T) {
	w := newPair(t)
	w.ok(controller, createReplicated(1, protocolC))
	id := w.volume(1).Operation.ID
	for _, node := range []string{"n1", "n2"} {
		f := finalFailure("create", "the pool of "+node+" is full")
		f.OperationId = uint64(id)
		w.report(node, volumeObservation(1, &fsmpb.Observation_StepFailed{StepFailed: f}))
	}
	require.Equal(t, OpRunning, w.volume(1).Operation.State)
	require.Equal(t, "the pool of n1 is full", w.volume(1).CreateFailure().LastError)

	w.ready(2, create(2))
	w.ok(controller, createSnapshot(1, 2))
	node := string(w.snapshot(1).Node)
	w.report(node, snapshotObservation(1, finalFailure("cut", "slow")))
	w.report(node, snapshotObservation(1, finalFailure("cut", "slow again")))
	require.Equal(t, OpRunning, w.snapshot(1).Operation.State)
	require.Equal(t, "slow", w.snapshot(1).Operation.LastError)
}

// S74, S19: an aborted group snapshot is cleaned up at once, and then there is neither a
// record nor a reservation of it; until then its name is taken, and callers that wait for
// it find the reason.
func TestS74_AnAbortedGroupLeavesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		abort, end func(*world)
		want       Reason
	}{
		"a step that failed": {want: NoCapacity,
			abort: func(w *world) { w.report("n1", snapshotObservation(100, finalFailure("cut", "the pool is full"))) },
			end:   func(w *world) { w.report("n2", goneReport(101, 1)) }},
		"an operator's cancel": {want: Busy,
			abort: func(w *world) {
				w.twice(admin, &fsmpb.CancelOperation{OperationId: uint64(w.groupSnapshot(1).Operation.ID)})
			},
			end: func(w *world) { w.report("n2", goneReport(101, 1)) }},
		"a host that is lost before it cleaned up": {want: Busy,
			abort: func(w *world) { w.report("n2", snapshotObservation(101, &fsmpb.Thawed{Attempt: 1})) },
			end:   func(w *world) { w.loseNode("n2") }},
	} {
		t.Run(name, func(t *testing.T) {
			w := twoHosts(t)
			before, _ := w.s.PoolUse("pool-n1")
			w.ok(controller, createGroup(1, 1, 3))
			w.report("n1", frozenReport(100, 1))
			w.report("n2", frozenReport(101, 1))
			w.report("n1", takenReport(100, 7, 1))
			tc.abort(w)
			again := createGroup(2, 1, 2)
			again.Name = "group-1"
			w.rejected(Busy, controller, again)
			require.Equal(t, []any{tc.want, OpDelete, OpRunning}, []any{w.s.CreateFailure(groupID(1)).Reason, w.groupSnapshot(1).Operation.Kind, w.groupSnapshot(1).Operation.State})
			w.report("n1", goneReport(100, 1))
			require.Equal(t, SnapshotFailed, w.snapshot(100).Phase, "its removal is pending on the other host")
			tc.end(w)
			reserved, _ := w.s.PoolUse("pool-n1")
			require.Equal(t, before, reserved)
			require.Zero(t, w.s.SnapshotCount())
			_, known := w.s.GroupSnapshot(GroupSnapshotID(groupID(1)))
			require.False(t, known)
			require.Equal(t, tc.want, w.s.CreateFailure(groupID(1)).Reason, "also where the clean-up was quick")
			require.Equal(t, groupID(2), w.twice(controller, again).GetGroupSnapshotId())
		})
	}
}

// S73: a late failure is that of the snapshot, the removal and the attempt that it names.
func TestS73_ASnapshotsFailureIsOfTheOperationThatItNames(t *testing.T) {
	named := func(n int, id OperationID, attempt uint32) *fsmpb.Observation {
		f := finalFailure("cut", "late")
		f.OperationId, f.Attempt = uint64(id), attempt
		return snapshotObservation(n, f)
	}
	w := twoHosts(t)
	w.ok(controller, createSnapshot(1, 1))
	op := w.snapshot(1).Operation
	desired, _ := w.s.DesiredSnapshot("n1", w.snapshot(1).ID)
	require.Equal(t, []any{op.ID, op.Retries}, []any{desired.Operation, desired.Retry})
	w.report("n1", named(1, op.ID-1, 0), named(1, op.ID, 7))
	require.Equal(t, []any{SnapshotTaking, uint32(0)}, []any{w.snapshot(1).Phase, w.snapshot(1).Operation.Attempts})
	w.report("n1", named(1, op.ID, 0))
	require.Equal(t, SnapshotDeleting, w.snapshot(1).Phase)
	late := named(1, op.ID, 0)
	late.GetStepFailed().Final = false
	w.report("n1", late)
	require.Zero(t, w.snapshot(1).Operation.Attempts, "that was the cut")

	w.ok(controller, createGroup(1, 1, 2))
	g := w.groupSnapshot(1)
	desired, _ = w.s.DesiredSnapshot("n1", w.snapshot(100).ID)
	require.Equal(t, []any{g.Operation.ID, uint32(0), g.Attempt}, []any{desired.Operation, desired.Retry, desired.Attempt})
	w.report("n1", named(100, g.Operation.ID-1, 0))
	require.Equal(t, GroupFreezing, w.groupSnapshot(1).Phase, "that was another attempt's")
	w.report("n1", named(100, g.Operation.ID, 0), named(101, g.Operation.ID, 0))
	require.Equal(t, []any{GroupAborting, uint32(0)}, []any{w.groupSnapshot(1).Phase, w.groupSnapshot(1).Operation.Attempts})
	w.report("n1", named(100, g.Operation.ID, 1))
	require.Equal(t, OpFailed, w.groupSnapshot(1).Operation.State, "this is the removal's")
	w.ok(admin, &fsmpb.RetryOperation{OperationId: uint64(g.Operation.ID)})
	w.report("n1", named(100, g.Operation.ID, 1))
	require.Equal(t, OpRunning, w.groupSnapshot(1).Operation.State, "that was before the retry")
}
