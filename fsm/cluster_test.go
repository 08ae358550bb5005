package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestTheFeatureLevelOnlyRises(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.twice(admin, &fsmpb.SetFeatureLevel{Level: Level1})
	w.rejected(Precondition, admin, &fsmpb.SetFeatureLevel{Level: 0})
	w.twice(admin, &fsmpb.SetFeatureLevel{Level: Level2})
	w.rejected(Precondition, admin, &fsmpb.SetFeatureLevel{Level: Level1})
}

// S23: the checkpoint is the majority's word, and it moves forward only.
func TestS23_ACheckpointIsRecordedOnce(t *testing.T) {
	w := newWorld(t)
	a, b := bytesOf("a", 32), bytesOf("b", 32)
	w.rejected(Invalid, controller, &fsmpb.Checkpoint{Index: 1, Hash: a[:31]})
	w.rejected(Invalid, controller, &fsmpb.Checkpoint{Index: 0, Hash: a})
	w.rejected(Invalid, controller, &fsmpb.Checkpoint{Index: 99, Hash: a})
	require.Equal(t, Invalid, reasonOf(w.apply(controller, &fsmpb.Checkpoint{Index: w.index + 1, Hash: a})), "of its own index")
	w.twice(controller, &fsmpb.Checkpoint{Index: 4, Hash: a})
	w.rejected(Incompatible, controller, &fsmpb.Checkpoint{Index: 4, Hash: b})
	w.rejected(Precondition, controller, &fsmpb.Checkpoint{Index: 3, Hash: a})
	require.Equal(t, Checkpoint{Index: 4, Hash: a}, w.s.Cluster().Checkpoint)
}

// S23: whatever differs between two states differs in their hash.
func TestS23_TheHashTellsStatesApart(t *testing.T) {
	base := func() *world { w := newWorld(t); w.ready(1, create(1)); return w }
	observed := map[[32]byte]string{}
	for name, change := range map[string]func(*world){
		"as it is":    func(*world) {},
		"published":   func(w *world) { w.ok(controller, publish(1, "n1")) },
		"read only":   func(w *world) { c := publish(1, "n1"); c.ReadOnly = true; w.ok(controller, c) },
		"deleted":     func(w *world) { w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}) },
		"one more":    func(w *world) { w.ok(controller, create(2)) },
		"only a no":   func(w *world) { w.apply(controller, publish(9, "n1")) },
		"unreachable": func(w *world) { w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"}) },
	} {
		w := base()
		change(w)
		other, twice := observed[w.s.Hash()]
		require.False(t, twice, "%s and %s", name, other)
		observed[w.s.Hash()] = name
		again := base()
		change(again)
		require.Equal(t, w.s.Hash(), again.s.Hash(), "one log, one hash")
	}
}

// A mark of a replica is hashed with its host: the same mark of the other replica is another state.
func TestTheHashTellsWhichReplicaIsMarked(t *testing.T) {
	for name, mark := range map[string]func(*Replica){
		"smaller than its volume": func(r *Replica) { r.Undersized = true },
		"its disk failed":         func(r *Replica) { r.DiskFailed = 3 },
		"its peer is behind":      func(r *Replica) { r.Observed.PeerBehind = true },
		"its host saw a failure":  func(r *Replica) { r.Observed.FailedAttachment = 3 },
		"it is not kept":          func(r *Replica) { r.NotKeptReason = "no room" },
	} {
		marked := func(i int) [32]byte {
			w := newReplicated(t, protocolC)
			withVolume(func(v *Volume) { mark(&v.Replicas[i]) })(w)
			return w.s.Hash()
		}
		require.NotEqual(t, marked(0), marked(1), name)
	}
}

func TestAFlippedBitIsFoundByCheck(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.volume(1).Replicas[0].Sequence ^= 1
	require.ErrorContains(t, w.s.Check(), "S111")
}

func TestOperations(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ok(controller, create(2))
	w.ok(controller, create(1))
	var ids []VolumeID
	for v := range w.s.Operations() {
		ids = append(ids, v.ID)
	}
	require.Equal(t, []VolumeID{VolumeID(volumeID(1)), VolumeID(volumeID(2))}, ids)
	op := w.volume(1).Operation
	require.Equal(t, OpRunning, op.State)
	v, ok := w.s.Operation(op.ID)
	require.True(t, ok)
	require.Equal(t, VolumeID(volumeID(1)), v.ID)
	fails := func(final bool) {
		w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "create", Error: "I/O error", Final: final}}})
	}
	fails(false)
	fails(false)
	require.EqualValues(t, 2, w.volume(1).Operation.Attempts)
	require.Equal(t, "create", w.volume(1).Operation.Step)
	require.IsType(t, Creating{}, w.volume(1).Phase)
	fails(true)
	require.Equal(t, Failed{Reason: "I/O error"}, w.volume(1).Phase)
	w.rejected(Precondition, admin, &fsmpb.CancelOperation{OperationId: uint64(op.ID)})
	desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.Equal(t, GoalKeep, desired.Goal, "a failed volume is not made")
	fails(true) // nothing runs that could fail
	require.EqualValues(t, 3, w.volume(1).Operation.Attempts)
	w.ok(admin, &fsmpb.RetryOperation{OperationId: uint64(op.ID)})
	require.IsType(t, Creating{}, w.volume(1).Phase)
	require.Equal(t, []uint32{0, 1}, []uint32{w.volume(1).Operation.Attempts, w.volume(1).Operation.Retries})
	w.report("n1", deviceCreated(1, gib))
	require.Nil(t, w.volume(1).Operation, "work that is done leaves no record")
	w.rejected(NotFound, admin, &fsmpb.RetryOperation{OperationId: uint64(op.ID)})
	w.rejected(NotFound, admin, &fsmpb.CancelOperation{OperationId: 99})
}

func TestACancelledVolumeMayBeRetried(t *testing.T) {
	w := newWorldAt(t, Level1)
	id := w.ok(controller, create(1)).GetOperationId()
	w.twice(admin, &fsmpb.CancelOperation{OperationId: id})
	w.report("n1", deviceCreated(1, gib))
	require.IsType(t, Failed{}, w.volume(1).Phase, "created counts while Creating only")
	w.rejected(Precondition, controller, publish(1, "n1"))
	w.ok(admin, &fsmpb.RetryOperation{OperationId: id})
	w.report("n1", deviceCreated(1, gib))
	require.Equal(t, Ready{}, w.volume(1).Phase)
}

func TestAConditionIsWhatTheHostReported(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	say := func(abnormal bool, message string) {
		w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_Condition{Condition: &fsmpb.Condition{Abnormal: abnormal, Message: message}}})
	}
	say(true, "read errors")
	require.Equal(t, Condition{Abnormal: true, Message: "read errors"}, w.volume(1).Condition)
	modified := w.volume(1).Modified
	say(true, "read errors")
	require.Equal(t, modified, w.volume(1).Modified, "what says nothing new changes nothing")
	say(false, "")
	require.Zero(t, w.volume(1).Condition)
}

func TestChangesNameWhatChanged(t *testing.T) {
	w := newWorld(t)
	changesOf := func(actor string, cmd *fsmpb.Command) []Change {
		w.index++
		return w.s.Apply(w.index, cmd).Changes
	}
	id := VolumeID(volumeID(1))
	c := envelope(controller, "create", w.index, create(1))
	require.Equal(t, []Change{{Volume: id, Node: "n1"}}, changesOf(controller, c))
	require.Empty(t, changesOf(controller, c), "a retry changes nothing")
	require.Empty(t, changesOf(controller, envelope(controller, "refused", w.index, publish(1, "n1"))))
	require.Equal(t, []Change{{Node: "n1"}}, changesOf("", envelope("node/n1", "again", w.index, register("n1"))), "its desired state is as before")
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	gone := envelope("node/n1", "gone", w.index, &fsmpb.Report{NodeId: "n1", HostId: "host-n1", BootId: "boot-1", Observations: []*fsmpb.Observation{deviceGone(1)}})
	require.Equal(t, []Change{{Volume: id, Node: "n1"}, {Volume: id}}, changesOf("node/n1", gone))
}
