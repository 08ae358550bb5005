package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CSI-CTRL-ControllerPublishVolume-03, -08, -13, -15 to -21.
func TestPublishVolume(t *testing.T) {
	toN1 := func(w *world) { w.ok(controller, publish(1, "n1")) }
	for name, tc := range map[string]struct {
		before func(*world)
		change func(*fsmpb.PublishVolume)
		want   Reason
		says   string
	}{
		"the first publish mints an epoch":      {},
		"the same again keeps its epoch (-03)":  {before: toN1},
		"read only":                             {change: func(c *fsmpb.PublishVolume) { c.ReadOnly = true }},
		"a mode that the volume's covers":       {change: func(c *fsmpb.PublishVolume) { c.Capability.Mode = readOnly }},
		"other mount flags than at creation":    {change: func(c *fsmpb.PublishVolume) { c.Capability.FlagsFingerprint = []byte{7} }},
		"no filesystem means the volume's":      {before: toN1, change: func(c *fsmpb.PublishVolume) { c.Capability.FsType = "" }},
		"an unknown volume (-15)":               {change: func(c *fsmpb.PublishVolume) { c.VolumeId = volumeID(9) }, want: NotFound},
		"an id that is none (-15)":              {change: func(c *fsmpb.PublishVolume) { c.VolumeId = "x" }, want: NotFound},
		"an unknown node (-16)":                 {change: func(c *fsmpb.PublishVolume) { c.NodeId = "n9" }, want: NotFound},
		"another capability (-17)":              {before: toN1, change: func(c *fsmpb.PublishVolume) { c.Capability.Mode = readOnly }, want: Incompatible},
		"another read-only flag (-18)":          {before: toN1, change: func(c *fsmpb.PublishVolume) { c.ReadOnly = true }, want: Incompatible},
		"another node (-19, -20)":               {before: toN1, change: func(c *fsmpb.PublishVolume) { c.NodeId = "n2" }, want: InUse, says: "node n1"},
		"a node that cannot reach it":           {change: func(c *fsmpb.PublishVolume) { c.NodeId = "n2" }, want: Precondition, says: "node n1"},
		"a node that is full (-21)":             {before: fillN1, want: NoCapacity, says: "maximum"},
		"block, of a volume for mounts (-08)":   {change: func(c *fsmpb.PublishVolume) { c.Capability = block(writer) }, want: Precondition},
		"another filesystem (-08)":              {change: func(c *fsmpb.PublishVolume) { c.Capability.FsType = "xfs" }, want: Precondition},
		"a mode of many nodes (-08)":            {change: func(c *fsmpb.PublishVolume) { c.Capability.Mode = multiRWX }, want: Invalid},
		"while it is being made":                {change: func(c *fsmpb.PublishVolume) { c.VolumeId = volumeID(2) }, want: Busy},
		"while it is being deleted":             {before: func(w *world) { w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}) }, want: NotFound},
		"to a node that cannot be reached":      {before: func(w *world) { w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"}) }, want: Unreachable},
		"held by a node that cannot be reached": {before: func(w *world) { toN1(w); w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"}) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ok("node/n2", register("n2"))
			w.ready(1, changed(1, func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n1")} }))
			w.ok(controller, create(2))
			if tc.before != nil {
				tc.before(w)
			}
			c := publish(1, "n1")
			if tc.change != nil {
				tc.change(c)
			}
			if tc.want != 0 {
				require.Contains(t, w.rejected(tc.want, controller, c).GetRejection().GetMessage(), tc.says)
				return
			}
			existing := w.volume(1).Publication("n1")
			out := w.twice(controller, c)
			if existing == nil {
				require.Equal(t, Epoch{1, w.index - 1}, EpochFrom(out.GetEpoch()))
			} else {
				require.Equal(t, existing.Epoch, EpochFrom(out.GetEpoch()))
			}
		})
	}
}

// fillN1 lets n1 hold one volume, and publishes another one to it.
func fillN1(w *world) {
	r := register("n1")
	r.MaxVolumes = 1
	w.ok("node/n1", r)
	w.ready(3, changed(3, func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n1")} }))
	w.ok(controller, publish(3, "n1"))
}

// S3: a single-writer volume has one publication, and each has an epoch of its own.
func TestS3_OnePublicationWithAnEpochThatGrows(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	first := EpochFrom(w.ok(controller, publish(1, "n1")).GetEpoch())
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
	second := EpochFrom(w.ok(controller, publish(1, "n1")).GetEpoch())
	require.Positive(t, second.Compare(first))

	stale := w.stage(1, "n1", 1)
	stale.Epoch = first.Proto()
	w.rejected(StaleEpoch, "node/n1", stale)
	w.ok("node/n1", w.stage(1, "n1", 1))
}

// S3: what is left of an older publication is torn down before the next is staged.
func TestS3_ATeardownComesBeforeTheNextStage(t *testing.T) {
	w := newRevokedWhileUnreachable(t)
	w.ok(controller, publish(1, "n1"))
	w.rejected(Busy, "node/n1", w.stage(1, "n1", 2))
	w.report("n1", unstaged(1, w.volume(1).Teardowns[0].Epoch, 2))
	w.ok("node/n1", w.stage(1, "n1", 3))
}

func unstaged(n int, epoch Epoch, sequence uint64) *fsmpb.Observation {
	return &fsmpb.Observation{VolumeId: volumeID(n), Epoch: epoch.Proto(), Sequence: sequence, Fact: &fsmpb.Observation_Unstaged{Unstaged: &fsmpb.Unstaged{}}}
}

// newRevokedWhileUnreachable is a world where volume 1 was staged on n1, unpublished while n1
// could not be reached, and n1 is back.
func newRevokedWhileUnreachable(t testing.TB) *world {
	w := newWorld(t)
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
	w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"})
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
	w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1", Reachable: true})
	return w
}

// S4: an unpublish that names an epoch ends no later publication.
// CSI-CTRL-ControllerUnpublishVolume-04 to -07, -10.
func TestUnpublishVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		command *fsmpb.UnpublishVolume
		ends    bool
	}{
		"from its node (-04)":            {&fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"}, true},
		"from all nodes (-05)":           {&fsmpb.UnpublishVolume{VolumeId: volumeID(1)}, true},
		"from another node (-06)":        {&fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n2"}, false},
		"from an unknown node (-07)":     {&fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n9"}, false},
		"of an unknown volume (-07)":     {&fsmpb.UnpublishVolume{VolumeId: volumeID(9), NodeId: "n1"}, false},
		"of an id that is none (-07)":    {&fsmpb.UnpublishVolume{VolumeId: "x", NodeId: "n1"}, false},
		"S4: of an epoch that is over":   {&fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1", Epoch: Epoch{1, 1}.Proto()}, false},
		"S4: of the epoch that it is at": {&fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1", Epoch: Epoch{1, 6}.Proto()}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ok("node/n2", register("n2"))
			w.ready(1, create(1))
			w.ok(controller, publish(1, "n1"))
			require.EqualValues(t, 6, w.index)
			w.twice(controller, tc.command)
			require.Equal(t, tc.ends, len(w.volume(1).Publications()) == 0)
			require.Equal(t, tc.ends, w.s.PublicationCount("n1") == 0)
		})
	}
}

// S31, at level 1: a volume that its host reports staged is not unpublished; an intent
// counts, as its host may be at it.
func TestS31_AtLevel1AStagedVolumeIsNotUnpublished(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	w.ok(controller, publish(1, "n1"))
	w.ok("node/n1", w.stage(1, "n1", 1))
	for _, node := range []string{"n1", ""} {
		require.Contains(t, w.rejected(InUse, controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: node}).GetRejection().GetMessage(), "n1")
	}
	w.report("n1", unstaged(1, w.volume(1).Publication("n1").Epoch, 2))
	w.twice(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
}

// S31: no other host reaches the data of a single replica, so it is unpublished although
// it is staged on a reachable host, which then has a pending teardown. S73: a Staged
// report of that publication is answered as overtaken.
func TestS31_AStagedVolumeIsUnpublishedWithATeardown(t *testing.T) {
	for _, node := range []string{"n1", ""} {
		w := newWorld(t)
		w.ready(1, create(1))
		w.ok(controller, publish(1, "n1"))
		w.ok("node/n1", w.stage(1, "n1", 1))
		epoch := w.volume(1).Publication("n1").Epoch
		w.twice(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: node})
		require.Empty(t, w.volume(1).Publications())
		require.Equal(t, []Teardown{{Node: "n1", Host: "host-n1", Epoch: epoch}}, w.volume(1).Teardowns)
		require.Equal(t, []uint32{0}, w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Epoch: epoch.Proto(), Sequence: 2,
			Fact: &fsmpb.Observation_Staged{Staged: &fsmpb.Staged{StagingPath: "/staging/1"}}}).GetOvertaken())

		w.ok(controller, publish(1, "n1"))
		w.rejected(Busy, "node/n1", w.stage(1, "n1", 3)) // the old mount ends first (S3)
		w.report("n1", unstaged(1, epoch, 4))
		require.Empty(t, w.volume(1).Teardowns)
		w.ok("node/n1", w.stage(1, "n1", 5))
	}
}

// S31: of an unreachable host the publication is revoked, and the teardown stays pending
// until the host reports it done.
func TestS31_AnUnreachableHostKeepsItsTeardown(t *testing.T) {
	w := newRevokedWhileUnreachable(t)
	v := w.volume(1)
	require.Empty(t, v.Publications())
	require.Len(t, v.Teardowns, 1)
	require.Equal(t, OpTeardown, v.Operation.Kind)
	desired, ok := w.s.DesiredVolume("n1", v.ID)
	require.True(t, ok)
	require.Nil(t, desired.Publication)
	require.Equal(t, &v.Teardowns[0], desired.Teardown)

	w.rejected(Precondition, admin, &fsmpb.CancelOperation{OperationId: uint64(v.Operation.ID)})
	other := v.Teardowns[0].Epoch
	other.Index++
	w.report("n1", unstaged(1, other, 2))
	require.Len(t, w.volume(1).Teardowns, 1, "a report of another epoch ends nothing (S104)")
	w.report("n1", unstaged(1, v.Teardowns[0].Epoch, 2))
	require.Empty(t, w.volume(1).Teardowns)
	require.Nil(t, w.volume(1).Operation)
}

// S18: the name is free when Delete commits, capacity when the host reported; a pending
// teardown does not keep the caller from deleting.
func TestS18_DeletingIsAnObligationThatStays(t *testing.T) {
	w := newRevokedWhileUnreachable(t)
	w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"})
	out := w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.NotZero(t, out.GetOperationId())
	require.Equal(t, OpDelete, w.volume(1).Operation.Kind)
	_, named := w.s.VolumeByName("", "pvc-1")
	require.False(t, named, "the name is free")
	reserved, _ := w.s.PoolUse("pool-n1")
	require.Equal(t, gib, reserved, "the capacity is not")

	w.ok(controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1", Reachable: true})
	w.ok(controller, changed(1, func(c *fsmpb.CreateVolume) { c.VolumeId = volumeID(2) }))
	epoch := w.volume(1).Teardowns[0].Epoch
	w.report("n1", deviceGone(1))
	require.IsType(t, Deleting{}, w.volume(1).Phase, "the device cannot be gone while it is mounted")
	w.report("n1", unstaged(1, epoch, 2), deviceGone(1))
	_, known := w.s.Volume(VolumeID(volumeID(1)))
	require.False(t, known)
	reserved, _ = w.s.PoolUse("pool-n1")
	require.Equal(t, gib, reserved, "of the new volume of the name")
	require.Zero(t, w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}).GetOperationId())
}

// CSI-CTRL-DeleteVolume-03, -04, -07.
func TestDeleteVolume(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(9)})
	w.twice(controller, &fsmpb.DeleteVolume{VolumeId: "no volume at all"})
	w.ok(controller, publish(1, "n1"))
	require.Contains(t, w.rejected(InUse, controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}).GetRejection().GetMessage(), "n1")
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	out := w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.Equal(t, uint64(w.volume(1).Operation.ID), out.GetOperationId())
	w.rejected(Precondition, admin, &fsmpb.CancelOperation{OperationId: out.GetOperationId()})
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_StepFailed{StepFailed: &fsmpb.StepFailed{Step: "remove", Error: "busy", Final: true}}})
	require.Equal(t, OpFailed, w.volume(1).Operation.State)
	require.IsType(t, Deleting{}, w.volume(1).Phase, "a pending removal stays one")
	w.ok(admin, &fsmpb.RetryOperation{OperationId: out.GetOperationId()})
	desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.EqualValues(t, 1, desired.Attempt)
	w.report("n1", deviceGone(1))
	w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
}

// S14: deletion is said by Deleting, creation belongs to Creating; a Ready volume
// without its device is missing, and nothing else.
func TestS14_DeletionIsExplicitAndNeverInferred(t *testing.T) {
	w := newWorld(t)
	verb := func() Goal {
		desired, ok := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
		require.True(t, ok)
		return desired.Goal
	}
	w.ok(controller, create(1))
	require.Equal(t, GoalCreate, verb())
	w.report("n1", deviceGone(1))
	require.IsType(t, Creating{}, w.volume(1).Phase)
	w.report("n1", deviceCreated(1, gib))
	require.Equal(t, GoalKeep, verb())
	w.report("n1", deviceGone(1))
	require.Equal(t, ReplicaPresent, w.volume(1).Replicas[0].State, "gone counts while Deleting only")

	missing := &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DeviceMissing{DeviceMissing: &fsmpb.DeviceMissing{Detail: "no such file"}}}
	w.report("n1", missing)
	require.Equal(t, ReplicaMissing, w.volume(1).Replicas[0].State)
	require.True(t, w.volume(1).Condition.Abnormal)
	require.Equal(t, GoalKeep, verb(), "it is never made again")
	w.report("n1", deviceCreated(1, gib))
	require.Equal(t, ReplicaMissing, w.volume(1).Replicas[0].State, "created counts while Creating only")
	w.report("n1", &fsmpb.Observation{VolumeId: volumeID(1), Fact: &fsmpb.Observation_DevicePresent{DevicePresent: &fsmpb.DevicePresent{}}})
	require.Equal(t, ReplicaPresent, w.volume(1).Replicas[0].State)
	require.False(t, w.volume(1).Condition.Abnormal)

	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.Equal(t, GoalRemove, verb())
	w.report("n1", deviceCreated(1, gib), missing)
	require.IsType(t, Deleting{}, w.volume(1).Phase)
	require.Equal(t, ReplicaPresent, w.volume(1).Replicas[0].State, "missing counts while Ready only")
	require.False(t, w.volume(1).Condition.Abnormal)
}

func TestADeviceOfAnotherSizeIsNotReady(t *testing.T) {
	w := newWorld(t)
	w.ok(controller, create(1))
	w.report("n1", deviceCreated(1, gib-4096))
	require.IsType(t, Creating{}, w.volume(1).Phase)
	require.Contains(t, w.volume(1).Operation.LastError, "1073737728")
}
