package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// createInGroup makes volume group 1, and begins to make a volume in it.
func (w *world) createInGroup(c *fsmpb.CreateVolume) {
	w.t.Helper()
	w.ok(controller, createVolumeGroup(1))
	c.VolumeGroup, c.MaxVolumes = volumeGroupID(1), 3
	w.ok(controller, c)
}

func failedCreate(n int, op *Operation) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{
		Step: "create", Error: "it is so", Final: true, OperationId: uint64(op.ID), Attempt: op.Retries,
	}}}
}

// S106: what could not be made is in no group from that entry on, also while a sweep has yet to forget it.
func TestWhatIsNotMadeLeavesItsGroup(t *testing.T) {
	lose := func(node string) *fsmpb.LoseNode { return &fsmpb.LoseNode{NodeId: node, HostId: "host-" + node} }
	for name, tc := range map[string]struct {
		create *fsmpb.CreateVolume
		end    func(w *world)
	}{
		"it failed": {create(1), func(w *world) { w.report("n1", failedCreate(1, w.volume(1).Operation)) }},
		"it was cancelled": {create(1), func(w *world) {
			w.ok(admin, &fsmpb.CancelOperation{OperationId: uint64(w.volume(1).Operation.ID)})
		}},
		"its host was lost": {create(1), func(w *world) { w.ok(admin, lose("n1")) }},
		"one of its hosts was lost": {createReplicated(1, protocolC), func(w *world) {
			w.ok(admin, lose(string(w.volume(1).Replicas[1].Node)))
		}},
	} {
		for what, budget := range map[string]sweepBudget{"at once": {}, "later": {reads: 1}} {
			t.Run(name+" "+what, func(t *testing.T) {
				w := newWorld(t)
				for _, node := range []string{"n1", "n2"} {
					w.ok("node/"+node, replicating(node))
				}
				if tc.create.GetReplicas() < 2 {
					w.ok(admin, &fsmpb.ScheduleNode{NodeId: "n2", HostId: "host-n2", Cordoned: true})
				}
				w.createInGroup(tc.create)
				w.s.sweepBudget = budget
				tc.end(w)
				require.Empty(t, w.members(1))
				w.ok(controller, &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
			})
		}
	}
}

// A late failure of the create that a group's deletion ended does not end the removal.
func TestALateFailureDoesNotEndTheRemovalOfAMember(t *testing.T) {
	w := newWorld(t)
	w.createInGroup(create(1))
	made := *w.volume(1).Operation
	w.ok(controller, &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
	w.report("n1", failedCreate(1, &made))
	require.Equal(t, OpRunning, w.volume(1).Operation.State)
}

// A group snapshot that was given up is none of the volumes'.
func TestAnAbortedSnapshotDoesNotKeepAVolumeGroup(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ok(controller, createVolumeGroup(1, 1))
	remove := &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)}
	w.ok(controller, createGroup(1, 1))
	w.rejected(Precondition, controller, remove)
	again := register("n1")
	again.BootId = "boot-2"
	w.ok("node/n1", again)
	w.ok(controller, remove)
}

// ADD-RS-ControllerReclaimSpace-11: a reclaim of a member ends before the group is deleted.
func TestAReclaimOfAMemberIsInTheWayOfItsGroupsDeletion(t *testing.T) {
	w := newFormatted(t)
	w.ok(controller, createVolumeGroup(1, 1))
	w.ok(controller, beginReclaim(1))
	remove := &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)}
	w.rejected(Busy, controller, remove)
	require.Equal(t, VolumeID(volumeID(1)), w.s.ReclaimInTheWay(envelope(controller, "x", 1, remove)))
	w.ok(controller, endReclaim(1))
	w.ok(controller, remove)
}

// S106: a change of a group that was held up, and was repeated meanwhile, puts nothing back into it: the group's
// deletion would delete that too.
func TestS106_ALateChangeBringsNothingBackIntoAGroup(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ready(2, create(2))
	w.ok(controller, createVolumeGroup(1, 1))
	late := envelope(controller, "held up", w.index, modifyVolumeGroup(1, 1, 2))
	w.ok(controller, modifyVolumeGroup(1, 1, 2))
	w.ok(controller, modifyVolumeGroup(1, 1))
	require.Equal(t, Busy, reasonOf(w.applyEnvelope(late)))
	require.Equal(t, volumeIDs(1), w.members(1))
	w.ok(controller, &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
	require.Equal(t, Ready{}, w.volume(2).Phase)
}

// S106: nor does a deletion that was held up delete what joined the group after it.
func TestS106_ALateDeletionDeletesNothingThatJoinedAfterIt(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ok(controller, createVolumeGroup(1))
	late := envelope(controller, "held up", w.index, &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
	w.ok(controller, modifyVolumeGroup(1, 1))
	require.Equal(t, Busy, reasonOf(w.applyEnvelope(late)))
	require.Equal(t, volumeIDs(1), w.members(1))
	require.Equal(t, Ready{}, w.volume(1).Phase)
}
