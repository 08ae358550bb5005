package fsm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CSI-CTRL-CreateSnapshot-02, -15, -16, -17, -18, -22.
func TestCreateSnapshot(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(*world)
		ask   func(*fsmpb.CreateSnapshot)
		want  Reason
	}{
		"a snapshot of a ready volume is cut":        {},
		"a name of 129 bytes is refused":             {ask: func(c *fsmpb.CreateSnapshot) { c.Name = strings.Repeat("n", 129) }, want: Invalid},
		"no name is refused":                         {ask: func(c *fsmpb.CreateSnapshot) { c.Name = "" }, want: Invalid},
		"an id of another pattern is refused":        {ask: func(c *fsmpb.CreateSnapshot) { c.SnapshotId = volumeID(1) }, want: Invalid},
		"a long fingerprint is refused":              {ask: func(c *fsmpb.CreateSnapshot) { c.Fingerprint = make([]byte, 65) }, want: Invalid},
		"a volume that is not known is not found":    {ask: func(c *fsmpb.CreateSnapshot) { c.SourceVolumeId = "somewhere" }, want: NotFound},
		"a volume that is being made is busy":        {given: func(w *world) { w.ok(controller, create(2)) }, ask: func(c *fsmpb.CreateSnapshot) { c.SourceVolumeId = volumeID(2) }, want: Busy},
		"an id that is taken is another snapshot's":  {given: func(w *world) { w.takeSnapshot(1, 1) }, ask: func(c *fsmpb.CreateSnapshot) { c.Name = "other" }, want: Incompatible},
		"the same name of another volume is refused": {given: func(w *world) { w.takeSnapshot(1, 1); w.ready(2, create(2)) }, ask: func(c *fsmpb.CreateSnapshot) { c.SourceVolumeId = volumeID(2) }, want: Incompatible},
		"the same name with other parameters is":     {given: func(w *world) { w.takeSnapshot(1, 1) }, ask: func(c *fsmpb.CreateSnapshot) { c.Fingerprint = nil }, want: Incompatible},
		"a host that cannot be reached is not asked": {given: func(w *world) {
			w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"})
		}, want: Unreachable},
		"a volume that is being formatted is busy": {given: func(w *world) {
			w.ok(controller, publish(1, "n1"))
			w.ok("node/n1", w.stage(1, "n1", 1))
		}, want: Busy},
		"a volume that is being expanded is busy": {given: func(w *world) {
			w.ok(controller, &fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 2 * gib})
		}, want: Busy},
		"a volume that is being cut for a group is busy": {given: func(w *world) { w.ok(controller, createGroup(1, 1)) }, want: Busy},
		"a missing device cannot be cut": {given: func(w *world) {
			w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{}}})
		}, want: Precondition},
		"a full pool has no room": {given: func(w *world) {
			for i := range 20 {
				c := create(10 + i)
				c.RequiredBytes = 1<<40 - gib/16
				w.ok(controller, c)
			}
		}, want: NoCapacity},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			if tc.given != nil {
				tc.given(w)
			}
			c := createSnapshot(1, 1)
			if tc.ask != nil {
				tc.ask(c)
			}
			if tc.want != 0 {
				w.rejected(tc.want, controller, c)
				return
			}
			w.twice(controller, c)
			require.Equal(t, SnapshotTaking, w.snapshot(1).Phase)
			require.Equal(t, SnapshotGoalTake, w.snapshotGoal(1))
			reserved, volumes := w.s.PoolUse("pool-n1")
			require.Equal(t, []any{2 * gib, 1}, []any{reserved, volumes}, "it reserves its size as a volume does")
		})
	}
}

func TestASnapshotIsReadyWhenItsHostReportedItTaken(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ok(controller, createSnapshot(1, 1))
	w.rejected(Busy, controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
	w.rejected(Busy, controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.rejected(Busy, controller, createFrom(2, fromSnapshot(1)))
	w.report("n1", snapshotObservation(1, &fsmpb.Progress{DoneBytes: 3, TotalBytes: 7}))
	require.Equal(t, []int64{3, 7}, []int64{w.snapshot(1).Operation.DoneBytes, w.snapshot(1).Operation.TotalBytes})
	w.report("n1", takenReport(1, 5, 1))
	require.Equal(t, SnapshotTaking, w.snapshot(1).Phase, "another attempt's cut does not count")
	w.report("n1", takenReport(1, 5, 0))
	cut := *w.snapshot(1)
	require.Equal(t, SnapshotReady, cut.Phase)
	require.Equal(t, time.Unix(0, 5).UTC(), cut.TakenAt)
	require.Nil(t, cut.Operation)
	w.report("n1", takenReport(1, 99, 0))
	require.Equal(t, cut, *w.snapshot(1), "the cut is told once and stays")
	require.Equal(t, snapshotID(1), w.twice(controller, createSnapshot(1, 1)).GetSnapshotId())
}

// CSI-CTRL-DeleteVolume-05, -10; CSI-CTRL-DeleteSnapshot-03.
func TestASnapshotOutlivesItsSource(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.takeSnapshot(1, 1)
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.report("n1", deviceGone(1))
	v := w.ready(2, createFrom(2, fromSnapshot(1)))
	require.Equal(t, gib, v.Size)
	w.twice(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
	require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(1))
	_, named := w.s.SnapshotByName("", "snap-1")
	require.False(t, named, "S18: the name is free at once")
	w.report("n1", goneReport(1, 0))
	require.Equal(t, 0, w.s.SnapshotCount())
	w.twice(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
	reserved, _ := w.s.PoolUse("pool-n1")
	require.Equal(t, gib, reserved)
}

func TestS14_SnapshotsAreTakenInTakingAndRemovedInDeleting(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.takeSnapshot(1, 1)
	require.Equal(t, SnapshotGoalKeep, w.snapshotGoal(1))
	w.report("n1", goneReport(1, 0))
	require.Equal(t, SnapshotReady, w.snapshot(1).Phase, "gone counts while deleting only")
	w.report("n1", snapshotObservation(1, &fsmpb.SnapshotMissing{Detail: "no file"}))
	require.True(t, w.snapshot(1).Missing)
	require.Equal(t, SnapshotGoalKeep, w.snapshotGoal(1), "what is missing is never cut again")
	w.rejected(Precondition, controller, createFrom(2, fromSnapshot(1)))
	w.report("n1", takenReport(1, 9, 0))
	require.False(t, w.snapshot(1).Missing)
	require.Equal(t, int64(1), w.snapshot(1).TakenAt.UnixNano())
}

// S16: a host numbers what it says of a snapshot; what has a number that was reported, or a lower one, is late.
func TestS16_ALateReportOfASnapshotIsIgnored(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.takeSnapshot(1, 1)
	missing := snapshotObservation(1, &fsmpb.SnapshotMissing{Detail: "no file"})
	missing.Sequence = w.snapshot(1).Sequence + 2
	w.report("n1", missing)
	for number, want := range map[uint64]bool{missing.Sequence - 1: true, missing.Sequence: true, missing.Sequence + 1: false} {
		fork := *w
		fork.s = w.s.Fork()
		back := takenReport(1, 9, 0)
		back.Sequence = number
		fork.report("n1", back)
		require.Equal(t, want, fork.snapshot(1).Missing, "number %d", number)
	}
}

func TestAFailedSnapshotBeginsAnewWithTheNextCreate(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	w.ok(controller, createSnapshot(1, 1))
	w.report("n1", snapshotObservation(1, &fsmpb.StepFailed{Step: "cut", Error: "slow"}))
	require.Equal(t, SnapshotTaking, w.snapshot(1).Phase)
	w.report("n1", snapshotObservation(1, &fsmpb.StepFailed{Step: "cut", Error: "full", Final: true, NoSpace: true}))
	failed := w.snapshot(1)
	require.Equal(t, []any{SnapshotFailed, NoCapacity, "full", SnapshotGoalKeep}, []any{failed.Phase, failed.Operation.Reason, failed.Error, w.snapshotGoal(1)})
	again := createSnapshot(2, 1)
	again.Name = "snap-1"
	require.Equal(t, snapshotID(2), w.twice(controller, again).GetSnapshotId())
	require.Equal(t, SnapshotDeleting, w.snapshot(1).Phase, "what the failed attempt left is a pending removal")
	w.report("n1", goneReport(1, 0), takenReport(2, 5, 0))
	require.Equal(t, 1, w.s.SnapshotCount())
}

func TestAnOperatorRetriesAndCancelsSnapshots(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	op := w.ok(controller, createSnapshot(1, 1)).GetOperationId()
	w.twice("admin/ann", &fsmpb.CancelOperation{OperationId: op})
	require.Equal(t, SnapshotFailed, w.snapshot(1).Phase)
	w.ok("admin/ann", &fsmpb.RetryOperation{OperationId: op})
	w.report("n1", takenReport(1, 5, 0))
	require.Equal(t, SnapshotTaking, w.snapshot(1).Phase, "the first attempt was overtaken")
	w.report("n1", takenReport(1, 5, 1))
	op = w.ok(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)}).GetOperationId()
	w.rejected(Precondition, "admin/ann", &fsmpb.CancelOperation{OperationId: op})
	w.report("n1", snapshotObservation(1, &fsmpb.StepFailed{Error: "I/O error", Final: true}))
	require.Equal(t, OpFailed, w.snapshot(1).Operation.State)
	w.ok("admin/ann", &fsmpb.RetryOperation{OperationId: op})
	require.Equal(t, OpRunning, w.snapshot(1).Operation.State)
}

func TestALostHostHoldsNoSnapshots(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	w.takeSnapshot(1, 1)
	w.ok(controller, createSnapshot(2, 1))
	w.takeSnapshot(3, 1)
	w.ok(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(3)})
	w.twice("admin/ann", &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
	for _, n := range []int{1, 2} {
		require.Equal(t, []any{SnapshotFailed, true}, []any{w.snapshot(n).Phase, w.snapshot(n).Gone})
		w.twice(controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(n)})
	}
	require.Equal(t, 0, w.s.SnapshotCount(), "what is pending on it ends with it")
}

func TestSnapshotsAreFoundBySourceNodeAndPage(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ready(2, create(2))
	for n := range 6 {
		w.takeSnapshot(1+n, 1+n%2)
	}
	count := 0
	for range w.s.Snapshots(SnapshotID(snapshotID(2))) {
		count++
	}
	require.Equal(t, 4, count)
	var found []SnapshotID
	for n := range w.s.SnapshotsOf(VolumeID(volumeID(1)), SnapshotID(snapshotID(1))) {
		found = append(found, n.ID)
	}
	require.Equal(t, []SnapshotID{SnapshotID(snapshotID(3)), SnapshotID(snapshotID(5))}, found)
	require.Len(t, slices.Collect(w.s.DesiredSnapshots("n1")), 6)
	require.Empty(t, slices.Collect(w.s.DesiredSnapshots("n2")))
}
