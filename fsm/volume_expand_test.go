package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func expandVolume(n int, required, limit int64) *fsmpb.ExpandVolume {
	return &fsmpb.ExpandVolume{VolumeId: volumeID(n), RequiredBytes: required, LimitBytes: limit}
}

func grownObservation(n int, size int64) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: size}}}
}

func stepFailedOf(n int, f *fsmpb.StepFailed) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_StepFailed{StepFailed: f}}
}

// CSI-CTRL-ControllerExpandVolume-02, -04, -06, -08, -09, -10, -12.
func TestExpandVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(*world)
		ask   *fsmpb.ExpandVolume
		size  int64
		want  Reason
	}{
		"it has exactly what is required":              {ask: expandVolume(1, 2*gib, 2*gib), size: 2 * gib},
		"or the next multiple of 4 KiB":                {ask: expandVolume(1, gib+1, 0), size: gib + 4096},
		"as large already is done":                     {ask: expandVolume(1, gib, 0), size: gib},
		"larger already is done, and never shrinks":    {ask: expandVolume(1, gib/2, 0), size: gib},
		"a limit alone changes nothing":                {ask: expandVolume(1, 0, 3*gib), size: gib},
		"a limit below the size is out of range":       {ask: expandVolume(1, gib/2, gib/2), want: OutOfRange},
		"a limit below the next multiple is too":       {ask: expandVolume(1, gib+1, gib+2), want: OutOfRange},
		"more than the largest volume is too":          {ask: expandVolume(1, MaxVolumeSize+1, 0), want: OutOfRange},
		"a range that contradicts itself is refused":   {ask: expandVolume(1, 3*gib, 2*gib), want: Invalid},
		"an empty range is refused":                    {ask: expandVolume(1, 0, 0), want: Invalid},
		"a negative range is refused":                  {ask: expandVolume(1, -1, 0), want: Invalid},
		"a volume that is not known is not found":      {ask: expandVolume(7, gib, 0), want: NotFound},
		"a use that it was not created for is refused": {ask: &fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 2 * gib, Capability: block(writer)}, want: Invalid},
		"its own use is served":                        {ask: &fsmpb.ExpandVolume{VolumeId: volumeID(1), RequiredBytes: 2 * gib, Capability: &fsmpb.Capability{Mode: writer}}, size: 2 * gib},
		"a published and staged volume grows as well":  {given: func(w *world) { w.staged(1, "n1", 1) }, ask: expandVolume(1, 2*gib, 0), size: 2 * gib},
		"a volume that is being cut is busy":           {given: func(w *world) { w.ok(controller, createSnapshot(1, 1)) }, ask: expandVolume(1, 2*gib, 0), want: Busy},
		"a volume that is growing to less is busy":     {given: func(w *world) { w.ok(controller, expandVolume(1, 2*gib, 0)) }, ask: expandVolume(1, 3*gib, 0), want: Busy},
		"a host that cannot be reached is not asked":   {given: func(w *world) { w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"}) }, ask: expandVolume(1, 2*gib, 0), want: Unreachable},
		"S25: a pool that is reserved to its limit hasn't room": {given: func(w *world) {
			c := create(5)
			c.RequiredBytes = 5 << 40
			w.ok(controller, c)
		}, ask: expandVolume(1, 16<<40-VolumeSizeUnit, 0), want: NoCapacity},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			if tc.given != nil {
				tc.given(w)
			}
			if tc.want != 0 {
				w.rejected(tc.want, controller, tc.ask)
				return
			}
			w.twice(controller, tc.ask)
			v := w.volume(1)
			require.Equal(t, []any{tc.size, tc.size > gib}, []any{v.Size, v.Operation != nil})
		})
	}
}

func TestAnExpansionIsDoneWhenTheDeviceHasTheSize(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	op := w.ok(controller, expandVolume(1, 2*gib, 0)).GetOperationId()
	require.Equal(t, op, w.ok(controller, expandVolume(1, 2*gib, 0)).GetOperationId(), "asked again it is the same")
	reserved, _ := w.s.PoolUse("pool-n1")
	require.Equal(t, 2*gib, reserved)
	w.report("n1", grownObservation(1, gib+4096))
	require.Equal(t, gib, w.volume(1).Replicas[0].Size)
	w.rejected(Precondition, "admin/ann", &fsmpb.CancelOperation{OperationId: op})
	w.report("n1", grownObservation(1, 2*gib))
	require.Equal(t, 2*gib, w.volume(1).Replicas[0].Size)
	require.Nil(t, w.volume(1).Operation)
	before := w.contents()
	w.report("n1", grownObservation(1, 3*gib))
	require.Equal(t, before, w.contents(), "more than was decided is not the log's")
}

// CSI-CTRL-ControllerExpandVolume-13.
func TestAFailedExpansionLeavesTheOldSize(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	op := w.ok(controller, expandVolume(1, 2*gib, 0)).GetOperationId()
	w.report("n1", stepFailedOf(1, &fsmpb.StepFailed{Error: "slow"}))
	require.Equal(t, 2*gib, w.volume(1).Size)
	w.report("n1", stepFailedOf(1, &fsmpb.StepFailed{Error: "full", Final: true, NoSpace: true}))
	v := w.volume(1)
	require.Equal(t, []any{gib, OpFailed, NoCapacity}, []any{v.Size, v.Operation.State, v.Operation.Reason})
	reserved, _ := w.s.PoolUse("pool-n1")
	require.Equal(t, gib, reserved)
	w.rejected(Precondition, "admin/ann", &fsmpb.RetryOperation{OperationId: op})
	require.NotEqual(t, op, w.ok(controller, expandVolume(1, 2*gib, 0)).GetOperationId())
	w.report("n1", grownObservation(1, 2*gib))
	require.Nil(t, w.volume(1).Operation)
}

// At feature level 1 there is one operation at a time.
func TestAnExpansionWaitsForATeardown(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	p := w.staged(1, "n1", 1)
	op := w.ok(controller, expandVolume(1, 2*gib, 0)).GetOperationId()
	w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"})
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	v := w.volume(1)
	require.Equal(t, []any{OpTeardown, op}, []any{v.Operation.Kind, uint64(v.Operation.ID)})
	w.ok("node/n1", register("n1"))
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: p.Epoch.Proto(), Sequence: 2, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	v = w.volume(1)
	require.Equal(t, []any{OpExpand, OpRunning, op}, []any{v.Operation.Kind, v.Operation.State, uint64(v.Operation.ID)})
	w.report("n1", grownObservation(1, 2*gib))
	require.Nil(t, w.volume(1).Operation)
}

func modifyVolume(n int, set uint32, limits *fsmpb.Limits) *fsmpb.ModifyVolume {
	return &fsmpb.ModifyVolume{VolumeId: volumeID(n), Limits: limits, Set: set}
}

func limitsAppliedObservation(n int, limits *fsmpb.Limits) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: volumeID(n), Fact: &fsmpb.Observation_LimitsApplied{LimitsApplied: &fsmpb.LimitsApplied{Limits: limits}}}
}

// CSI-EXT-Modify-02, -05, -07.
func TestModifyVolumeThatIsNotStagedIsDoneAtOnce(t *testing.T) {
	w := newWorld(t)
	w.rejected(NotFound, controller, modifyVolume(1, 0, &fsmpb.Limits{ReadIops: 1}))
	w.ready(1, create(1))
	w.twice(controller, modifyVolume(1, 0, &fsmpb.Limits{ReadIops: 7, WriteBytesPerSecond: 9}))
	require.Nil(t, w.volume(1).Operation)
	w.twice(controller, modifyVolume(1, 0, &fsmpb.Limits{WriteIops: 3}))
	require.Equal(t, Limits{ReadIOPS: 7, WriteIOPS: 3, WriteBPS: 9}, w.volume(1).Limits, "the others are left alone")
	w.twice(controller, modifyVolume(1, 1, &fsmpb.Limits{}))
	desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.Equal(t, Limits{WriteIOPS: 3, WriteBPS: 9}, desired.Limits, "one can be ended by naming it")
	w.report("n1", limitsAppliedObservation(1, &fsmpb.Limits{ReadIops: 1}))
	require.Zero(t, w.volume(1).Replicas[0].Limits, "nothing is in force where it is not staged")
}

func TestModifyOfAStagedVolumeIsDoneWhenItsHostReportsIt(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	p := w.staged(1, "n1", 1)
	op := w.twice(controller, modifyVolume(1, 0, &fsmpb.Limits{ReadIops: 7})).GetOperationId()
	require.Equal(t, OpModify, w.volume(1).Operation.Kind)
	require.Equal(t, op, w.ok(controller, modifyVolume(1, 0, &fsmpb.Limits{ReadIops: 8})).GetOperationId())
	w.report("n1", limitsAppliedObservation(1, &fsmpb.Limits{ReadIops: 7}))
	require.NotNil(t, w.volume(1).Operation, "those are not the limits")
	w.report("n1", stepFailedOf(1, &fsmpb.StepFailed{Error: "no such group", Final: true}))
	require.Equal(t, OpFailed, w.volume(1).Operation.State)
	w.ok(controller, modifyVolume(1, 0, &fsmpb.Limits{ReadIops: 8}))
	require.Equal(t, OpRunning, w.volume(1).Operation.State, "asked again it is tried again")
	w.report("n1", limitsAppliedObservation(1, &fsmpb.Limits{ReadIops: 8}))
	require.Nil(t, w.volume(1).Operation)
	w.twice(controller, modifyVolume(1, 0, &fsmpb.Limits{ReadIops: 8}))

	w.ok(controller, modifyVolume(1, 0, &fsmpb.Limits{ReadIops: 9}))
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: p.Epoch.Proto(), Sequence: 2, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}})
	require.Nil(t, w.volume(1).Operation, "it is not staged any more")
	require.Zero(t, w.volume(1).Replicas[0].Limits)
}

func TestModifyVolumeOnAnUnreachableHostChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
	w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"})
	w.rejected(Unreachable, controller, modifyVolume(1, 0, &fsmpb.Limits{ReadIops: 7}))
}

// S73: a failure that comes late is that of the operation and attempt that it names.
func TestS73_AFailureIsOfTheOperationThatItNames(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ok(controller, expandVolume(1, 2*gib, 0))
	op := w.volume(1).Operation
	late := func(id OperationID, attempt uint32) *fsmpb.Observation {
		return stepFailedOf(1, &fsmpb.StepFailed{Step: "grow", Error: "late", Final: true, OperationId: uint64(id), Attempt: attempt})
	}
	w.report("n1", late(op.ID-1, 0), late(op.ID, 7))
	require.Equal(t, OpRunning, w.volume(1).Operation.State)
	require.Zero(t, w.volume(1).Operation.Attempts)
	w.report("n1", late(op.ID, op.Retries))
	require.Equal(t, OpFailed, w.volume(1).Operation.State)
}

// S110: a pending teardown stays an operation when a step of it failed for good.
func TestNothingTakesThePlaceOfATeardownThatFailed(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
	require.Len(t, w.volume(1).Teardowns, 1)
	w.report("n1", stepFailedOf(1, &fsmpb.StepFailed{Step: "unmount", Error: "it is in use", Final: true}))
	w.rejected(Busy, controller, expandVolume(1, 2*gib, 0))
	w.ok(controller, modifyVolume(1, 0, &fsmpb.Limits{ReadIops: 7}))
	require.Equal(t, OpTeardown, w.volume(1).Operation.Kind)
}

// S25: what is measured excludes a pool, at level 2; what is reserved admits.
func TestS25_AVolumeGrowsByNoMoreThanWhatIsFree(t *testing.T) {
	for level, want := range map[uint32]Reason{Level1: 0, Level2: NoCapacity} {
		w := newWorldAt(t, level)
		n := register("n2")
		n.Pools[0].OvercommitPercent = 200
		w.ok("node/n2", n)
		c := create(1)
		c.Requisite = []*fsmpb.Topology{onNode("n2")}
		w.ready(1, c)
		grow := expandVolume(1, 4*gib, 0)
		grow.Facts = []*fsmpb.PoolFact{{PoolId: "pool-n2", FreeBytes: 3 * gib, Index: w.index}} // 1 GiB is its reserve
		if level == Level1 {
			grow.Facts = nil
		} else {
			w.rejected(want, controller, grow)
			grow.RequiredBytes = 3 * gib
		}
		w.twice(controller, grow)
	}
}
