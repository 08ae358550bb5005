package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// twoHosts is a world with volumes 1 and 2 on n1 and volume 3 on n2.
func twoHosts(t *testing.T) *world { return twoHostsAt(t, Level2) }

func twoHostsAt(t *testing.T, level uint32) *world {
	w := newWorldAt(t, level)
	w.ready(1, create(1))
	w.ready(2, create(2))
	w.ok("node/n2", register("n2"))
	w.ready(3, create(3))
	require.Equal(t, NodeID("n2"), w.volume(3).Replicas[0].Node, "the emptier pool")
	return w
}

// CSI-GRP-CreateVolumeGroupSnapshot-04, -12, -21, -22.
func TestCreateGroupSnapshot(t *testing.T) {
	raw := func(c *fsmpb.Capability, readOnly bool) func(*world) {
		return func(w *world) {
			volume := create(4)
			volume.Capabilities = []*fsmpb.Capability{block(multi)}
			w.ready(4, volume)
			w.ok(controller, &fsmpb.PublishVolume{VolumeId: volumeID(4), NodeId: string(w.volume(4).Replicas[0].Node), Capability: c, ReadOnly: readOnly})
		}
	}
	for name, tc := range map[string]struct {
		given func(*world)
		ask   *fsmpb.CreateGroupSnapshot
		want  Reason
	}{
		"volumes on several hosts begin to freeze": {ask: createGroup(1, 3, 1, 2)},
		"one volume is a group":                    {ask: createGroup(1, 1)},
		"no volume is none":                        {ask: createGroup(1), want: Invalid},
		"a volume given twice is refused":          {ask: createGroup(1, 1, 1), want: Invalid},
		"a volume that is not known is not found":  {ask: createGroup(1, 1, 9), want: NotFound},
		"a volume that is being made is busy":      {given: func(w *world) { w.ok(controller, create(4)) }, ask: createGroup(1, 1, 4), want: Busy},
		"a volume that is being cut is busy":       {given: func(w *world) { w.ok(controller, createSnapshot(1, 2)) }, ask: createGroup(1, 1, 2), want: Busy},
		"other volumes under a name are refused":   {given: func(w *world) { w.takeGroup(1, 1, 2) }, ask: createGroup(1, 1), want: Incompatible},
		"an id that is taken is refused": {given: func(w *world) { w.takeGroup(1, 1) }, ask: func() *fsmpb.CreateGroupSnapshot {
			c := createGroup(1, 1)
			c.Name = "other"
			return c
		}(), want: Incompatible},
		"S19: a raw volume published for writing is refused": {given: raw(block(multi), false), ask: createGroup(1, 1, 4), want: Precondition},
		"S19: a raw volume published read-only is cut":       {given: raw(block(multi), true), ask: createGroup(1, 1, 4)},
		"S19: a raw volume for one reader only is cut":       {given: raw(block(readOnly), false), ask: createGroup(1, 1, 4)},
		"a host that cannot be reached is not asked": {given: func(w *world) {
			w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n2", HostId: "host-n2"})
		}, ask: createGroup(1, 1, 3), want: Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			w := twoHosts(t)
			if tc.given != nil {
				tc.given(w)
			}
			if tc.want != 0 {
				w.rejected(tc.want, controller, tc.ask)
				return
			}
			require.Equal(t, groupID(1), w.twice(controller, tc.ask).GetGroupSnapshotId())
			g := w.groupSnapshot(1)
			require.Equal(t, []any{GroupFreezing, uint32(1), len(tc.ask.Members)}, []any{g.Phase, g.Attempt, len(g.Members)})
		})
	}
}

func TestS19_AGroupIsTakenOnceAllAreFrozenAndReadyOnceAllAreTaken(t *testing.T) {
	w := twoHosts(t)
	w.ok(controller, createGroup(1, 1, 2, 3))
	require.Equal(t, SnapshotGoalFreeze, w.snapshotGoal(100))
	w.report("n1", frozenReport(100, 1), frozenReport(101, 1), takenReport(100, 7, 1))
	require.Equal(t, GroupFreezing, w.groupSnapshot(1).Phase, "n2 has not frozen")
	require.True(t, w.snapshot(100).TakenAt.IsZero(), "a cut before all are frozen does not count")
	w.report("n2", frozenReport(102, 2))
	require.Equal(t, GroupFreezing, w.groupSnapshot(1).Phase, "another attempt's freeze does not count")
	w.report("n1", frozenReport(102, 1))
	require.Equal(t, GroupFreezing, w.groupSnapshot(1).Phase, "S20: only its own host says so")
	w.report("n2", frozenReport(102, 1))
	require.Equal(t, GroupTaking, w.groupSnapshot(1).Phase)
	require.Equal(t, SnapshotGoalTake, w.snapshotGoal(100))
	w.report("n1", takenReport(100, 7, 1), takenReport(101, 5, 1), snapshotObservation(100, &fsmpb.Thawed{Attempt: 1}))
	require.Equal(t, []any{GroupTaking, SnapshotGoalKeep}, []any{w.groupSnapshot(1).Phase, w.snapshotGoal(100)}, "what is cut may thaw")
	w.rejected(Busy, controller, createFrom(9, fromSnapshot(100)))
	w.report("n2", takenReport(102, 6, 1))
	g := w.groupSnapshot(1)
	require.Equal(t, []any{GroupReady, time.Unix(0, 5).UTC()}, []any{g.Phase, g.TakenAt})
	require.Nil(t, g.Operation)
	require.Equal(t, SnapshotReady, w.snapshot(102).Phase)
	w.ready(9, createFrom(9, fromSnapshot(100)))
	require.Equal(t, groupID(1), w.twice(controller, createGroup(1, 3, 2, 1)).GetGroupSnapshotId())
}

func TestS19_AnInterruptedGroupLeavesNoHalfGroup(t *testing.T) {
	for name, interrupt := range map[string]func(*world){
		"a freeze that ended": func(w *world) { w.report("n2", snapshotObservation(102, &fsmpb.Thawed{Attempt: 1})) },
		"a step that failed": func(w *world) {
			w.report("n2", snapshotObservation(102, &fsmpb.StepFailed{Step: "cut", Error: "I/O error"}))
		},
		"a cut of another size":     func(w *world) { w.report("n2", snapshotObservation(102, &fsmpb.SnapshotCut{SizeBytes: 1, Attempt: 1})) },
		"a host that became silent": func(w *world) { w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n2", HostId: "host-n2"}) },
		"a host that was lost":      func(w *world) { w.ok("admin/ann", &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2"}) },
		"a host that was booted":    func(w *world) { r := register("n2"); r.BootId = "boot-2"; w.ok("node/n2", r) },
		"an operator's cancel": func(w *world) {
			w.ok("admin/ann", &fsmpb.CancelOperation{OperationId: uint64(w.groupSnapshot(1).Operation.ID)})
		},
		"a restore of the cluster": func(w *world) {
			w.ok("admin/ann", &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := twoHosts(t)
			w.ok(controller, createGroup(1, 1, 2, 3))
			w.report("n1", frozenReport(100, 1), frozenReport(101, 1))
			w.report("n2", frozenReport(102, 1))
			w.report("n1", takenReport(100, 7, 1))
			interrupt(w)
			g := w.groupSnapshot(1)
			require.Equal(t, GroupAborting, g.Phase)
			require.NotEmpty(t, g.Error)
			require.Equal(t, SnapshotFailed, w.snapshot(100).Phase)
			w.report("n1", takenReport(101, 7, 1))
			require.Equal(t, GroupAborting, w.groupSnapshot(1).Phase, "a late cut does not count")
			require.Equal(t, SnapshotFailed, w.snapshot(101).Phase)
		})
	}
}

// At feature level 1 an aborted group keeps its record, and its ids.
func TestS19_AGroupIsTriedAgainOnceNothingIsLeftOfTheLastAttempt(t *testing.T) {
	w := twoHostsAt(t, Level1)
	w.ok(controller, createGroup(1, 1, 2))
	w.report("n1", snapshotObservation(100, &fsmpb.StepFailed{Step: "freeze", Error: "busy", Reason: uint32(Precondition)}))
	require.Equal(t, Precondition, w.groupSnapshot(1).Operation.Reason)
	require.Equal(t, SnapshotGoalThaw, w.snapshotGoal(100))
	w.rejected(Busy, controller, createGroup(1, 1, 2))
	w.report("n1", goneReport(100, 1), goneReport(101, 0))
	require.True(t, w.snapshot(100).Gone)
	require.Zero(t, w.snapshotGoal(100))
	w.rejected(Busy, controller, createGroup(1, 1, 2))
	reserved, _ := w.s.PoolUse("pool-n1")
	require.Equal(t, 3*gib, reserved, "only the other member keeps room")
	w.report("n1", goneReport(101, 1))

	requested := createGroup(2, 1, 2)
	requested.Name = "group-1"
	require.Equal(t, groupID(1), w.twice(controller, requested).GetGroupSnapshotId(), "it keeps its ids")
	require.Equal(t, []any{GroupFreezing, uint32(2)}, []any{w.groupSnapshot(1).Phase, w.groupSnapshot(1).Attempt})
	w.report("n1", frozenReport(100, 1), goneReport(100, 1))
	require.False(t, w.snapshot(100).Frozen, "what was said of the last attempt was overtaken")
	w.report("n1", snapshotObservation(100, &fsmpb.Thawed{Attempt: 1}))
	require.Equal(t, GroupFreezing, w.groupSnapshot(1).Phase, "so was the end of its freeze")
	w.report("n1", frozenReport(100, 2), frozenReport(101, 2), takenReport(100, 3, 1))
	require.True(t, w.snapshot(100).TakenAt.IsZero(), "so was its cut")
	w.report("n1", takenReport(100, 4, 2), takenReport(101, 4, 2))
	require.Equal(t, GroupReady, w.groupSnapshot(1).Phase)
}

func TestAnAbortedGroupFreesItsNameForOtherVolumes(t *testing.T) {
	w := twoHosts(t)
	w.ok(controller, createGroup(1, 1, 2))
	w.report("n1", snapshotObservation(100, &fsmpb.Thawed{Attempt: 1}), goneReport(100, 1), goneReport(101, 1))
	requested := createGroup(2, 1, 3)
	requested.Name = "group-1"
	require.Equal(t, groupID(2), w.twice(controller, requested).GetGroupSnapshotId())
	_, known := w.s.GroupSnapshot(GroupSnapshotID(groupID(1)))
	require.False(t, known)
}

// CSI-GRP-DeleteVolumeGroupSnapshot-02, -03, -07, -08; CSI-CTRL-DeleteSnapshot-04, -05, -08.
func TestDeleteGroupSnapshot(t *testing.T) {
	w := twoHosts(t)
	w.takeGroup(1, 1, 2)
	w.rejected(Invalid, controller, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(100)})
	w.ok(controller, createFrom(9, fromSnapshot(100)))
	w.rejected(InUse, controller, &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: groupID(1)})
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(9), Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: gib}}})

	op := w.twice(controller, &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: groupID(1)}).GetOperationId()
	require.Equal(t, SnapshotGoalRemove, w.snapshotGoal(100))
	_, named := w.s.GroupSnapshotByName("", "group-1")
	require.False(t, named)
	w.rejected(Precondition, "admin/ann", &fsmpb.CancelOperation{OperationId: op})
	w.report("n1", goneReport(100, 0), snapshotObservation(101, &fsmpb.StepFailed{Error: "I/O error", Final: true}))
	require.Equal(t, OpFailed, w.groupSnapshot(1).Operation.State)
	w.ok("admin/ann", &fsmpb.RetryOperation{OperationId: op})
	w.report("n1", goneReport(101, 0))
	require.Equal(t, 0, w.s.SnapshotCount())
	w.twice(controller, &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: groupID(1)})
}

func TestAGroupThatIsBeingTakenCanBeDeleted(t *testing.T) {
	w := twoHosts(t)
	w.ok(controller, createGroup(1, 1, 3))
	w.report("n1", frozenReport(100, 1))
	w.twice(controller, &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: groupID(1)})
	w.report("n2", frozenReport(101, 1), goneReport(101, 0))
	w.ok("admin/ann", &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1"})
	require.Equal(t, 0, w.s.SnapshotCount())
	_, known := w.s.GroupSnapshot(GroupSnapshotID(groupID(1)))
	require.False(t, known, "the lost host's pending removal ended with it")
}

func TestS19_NothingIsStagedBetweenFreezeAndSnapshot(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ready(2, create(2))
	w.staged(2, "n1", 1)
	w.ok(controller, publish(1, "n1"))
	w.ok(controller, createGroup(1, 1, 2))
	w.rejected(Busy, "node/n1", w.stage(1, "n1", 1))
	w.ok("node/n1", w.stage(2, "n1", 2))
	w.report("n1", frozenReport(100, 1), frozenReport(101, 1), takenReport(100, 4, 1), takenReport(101, 4, 1))
	w.ok("node/n1", w.stage(1, "n1", 1))
}

func TestS1_AHostInAdoptionModeTakesAndRemovesNoSnapshot(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ok(controller, createSnapshot(1, 1))
	w.ok("admin/ann", &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
	require.Equal(t, SnapshotGoalKeep, w.snapshotGoal(1))
	w.rejected(Precondition, controller, createSnapshot(2, 1))
	w.ok("admin/ann", &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
	require.Equal(t, SnapshotGoalTake, w.snapshotGoal(1))
}

func TestAReadyGroupKeepsWhatALostHostDidNotHold(t *testing.T) {
	w := twoHosts(t)
	w.ok(controller, createGroup(1, 1, 3))
	w.report("n1", frozenReport(100, 1))
	w.report("n2", frozenReport(101, 1), takenReport(101, 5, 1))
	w.report("n1", takenReport(100, 6, 1))
	w.report("n2", takenReport(101, 5, 1))
	require.Equal(t, GroupReady, w.groupSnapshot(1).Phase)
	w.ok("admin/ann", &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2", Reason: "burnt"})
	require.Equal(t, []any{SnapshotFailed, true, true}, []any{w.snapshot(101).Phase, w.snapshot(101).Gone, w.snapshot(101).Missing})
	w.ready(9, createFrom(9, fromSnapshot(100)))
	w.rejected(Precondition, controller, createFrom(8, fromSnapshot(101)))
	w.twice(controller, &fsmpb.DeleteGroupSnapshot{GroupSnapshotId: groupID(1)})
	w.report("n1", goneReport(100, 0))
	require.Equal(t, 0, w.s.SnapshotCount())
}

func TestChangesNameSnapshotsAndGroups(t *testing.T) {
	w := twoHosts(t)
	changesOf := func(actor string, body proto.Message) []Change {
		w.calls++
		w.index++
		return w.s.Apply(w.index, envelope(actor, fmt.Sprintf("touch %d", w.calls), w.index, body)).Changes
	}
	single := Change{Snapshot: SnapshotID(snapshotID(1)), Node: "n1"}
	require.Equal(t, []Change{single}, changesOf(controller, createSnapshot(1, 1)))
	require.Empty(t, changesOf(controller, createSnapshot(1, 1)), "nothing changed")
	w.report("n1", takenReport(1, 1, 0))
	group := GroupSnapshotID(groupID(1))
	first, second := Change{Snapshot: SnapshotID(snapshotID(100)), Group: group, Node: "n1"}, Change{Snapshot: SnapshotID(snapshotID(101)), Group: group, Node: "n2"}
	all := changesOf(controller, createGroup(1, 1, 3))
	require.Subset(t, all, []Change{first, second, {Group: group}})
	w.report("n1", frozenReport(100, 1))
	cut := &fsmpb.Report{NodeId: "n2", HostId: "host-n2", BootId: "boot-1", Observations: []*fsmpb.Observation{frozenReport(101, 1)}}
	require.Subset(t, changesOf("node/n2", cut), []Change{first, second, {Group: group}}, "every host is to cut now")
}
