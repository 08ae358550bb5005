package fsm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func changedNode(node string, change func(*fsmpb.RegisterNode)) *fsmpb.RegisterNode {
	r := register(node)
	change(r)
	return r
}

// S17: a host is its name, its host id and its pool ids.
func TestS17_AHostIsItsNameItsIDAndItsPools(t *testing.T) {
	lost := func(w *world) { w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"}) }
	for name, tc := range map[string]struct {
		before func(*world)
		change func(*fsmpb.RegisterNode)
		want   Reason
	}{
		"the same host again":          {change: func(r *fsmpb.RegisterNode) {}},
		"the same host, a new boot":    {change: func(r *fsmpb.RegisterNode) { r.BootId = "boot-2" }},
		"the same host, a larger pool": {change: func(r *fsmpb.RegisterNode) { r.Pools[0].CapacityBytes *= 2 }},
		"the same host, one pool more": {change: func(r *fsmpb.RegisterNode) {
			r.Pools = append(r.Pools, &fsmpb.Pool{PoolId: "pool-n1-2", Backend: "loopfile"})
		}},
		"a reinstalled host with the old name":      {change: func(r *fsmpb.RegisterNode) { r.HostId = "host-new" }, want: Precondition},
		"the old host without its pool":             {change: func(r *fsmpb.RegisterNode) { r.Pools = nil }, want: Precondition},
		"the old host with another pool":            {change: func(r *fsmpb.RegisterNode) { r.Pools[0].PoolId = "pool-new" }, want: Precondition},
		"another name with the same host id":        {change: func(r *fsmpb.RegisterNode) { r.NodeId, r.Pools = "n2", nil }, want: Precondition},
		"another name with the same pool":           {change: func(r *fsmpb.RegisterNode) { r.NodeId, r.HostId = "n2", "host-n2" }, want: Precondition},
		"a reinstalled host after the old was lost": {before: lost, change: func(r *fsmpb.RegisterNode) { r.HostId, r.Pools[0].PoolId = "host-new", "pool-new" }},
		"the lost host itself":                      {before: lost, change: func(r *fsmpb.RegisterNode) {}, want: Precondition},
		"no host id":                                {change: func(r *fsmpb.RegisterNode) { r.HostId = "" }, want: Invalid},
		"no boot id":                                {change: func(r *fsmpb.RegisterNode) { r.BootId = "" }, want: Invalid},
		"a pool named twice":                        {change: func(r *fsmpb.RegisterNode) { r.Pools = append(r.Pools, r.Pools[0]) }, want: Invalid},
		"a pool without an id":                      {change: func(r *fsmpb.RegisterNode) { r.Pools[0].PoolId = "" }, want: Invalid},
		"a negative capacity":                       {change: func(r *fsmpb.RegisterNode) { r.Pools[0].CapacityBytes = -1 }, want: Invalid},
		"a label given twice":                       {change: func(r *fsmpb.RegisterNode) { r.Labels = []*fsmpb.Label{{Key: "a"}, {Key: "a"}} }, want: Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.ready(1, create(1))
			if tc.before != nil {
				tc.before(w)
			}
			r := changedNode("n1", tc.change)
			if tc.want != 0 {
				w.rejected(tc.want, "node/"+r.NodeId, r)
				return
			}
			for range 2 {
				w.ok("node/"+r.NodeId, r)
				n, _ := w.s.Node("n1")
				require.Equal(t, HostID(r.HostId), n.Host)
				require.Equal(t, NodeReachable, n.State)
				require.Equal(t, r.Pools[0].CapacityBytes, n.Pools[0].Capacity)
			}
		})
	}
}

// S17: a registration that an earlier boot proposed, and that is applied late, does not take the
// node from the boot that is registered: nothing that the host says would count from then on.
func TestS17_ALateRegistrationDisplacesNoLaterOne(t *testing.T) {
	boot := func(name string) *fsmpb.RegisterNode {
		return changedNode("n1", func(r *fsmpb.RegisterNode) { r.BootId = name })
	}
	for level, late := range map[uint32]Reason{Level1: 0, Level2: Busy} {
		w := newWorldAt(t, level)
		proposed := w.index
		w.ok("node/n1", boot("boot-2"))
		for i := range 2 {
			out := w.applyEnvelope(envelope("node/n1", fmt.Sprint("late ", i), proposed, boot("boot-1")))
			require.Equal(t, uint32(late), out.GetRejection().GetReason())
		}
		if late != 0 {
			n, _ := w.s.Node("n1")
			require.Equal(t, "boot-2", n.Boot)
		}
		w.ok("node/n1", boot("boot-3")) // who is there asks again, and knows of the last one
		n, _ := w.s.Node("n1")
		require.Equal(t, "boot-3", n.Boot)
	}
}

// S17: a restored log issues its indexes again: a registration of before says nothing about one of
// after.
func TestS17_ARegistrationOfAnotherIncarnationMakesNoneLate(t *testing.T) {
	w := newWorld(t)
	n, _ := w.s.Node("n1")
	n.Registered.Index = 1 << 40
	require.NotNil(t, w.s.checkNotLate(Meta{Proposed: w.index}, n))
	n.Registered.Incarnation--
	require.Nil(t, w.s.checkNotLate(Meta{Proposed: w.index}, n))
}

// S17: pending work and publications belong to the host id: a host that registers under
// an old name has none of its predecessor's.
func TestS17_ANewHostInheritsNothingOfTheOld(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ready(1, create(1))
	w.staged(1, "n1", 1)
	w.ready(2, create(2))
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(2)})
	w.ok(controller, create(3))
	w.twice(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})

	_, known := w.s.Volume(VolumeID(volumeID(2)))
	require.False(t, known, "what was pending on the lost host only has ended")
	for _, n := range []int{1, 3} {
		require.IsType(t, Failed{}, w.volume(n).Phase)
		require.Contains(t, w.volume(n).Condition.Message, "burnt")
		require.Nil(t, w.volume(n).Operation)
	}
	reserved, volumes := w.s.PoolUse("pool-n1")
	require.Zero(t, reserved+int64(volumes))
	require.Zero(t, w.s.PublicationCount("n1"))

	w.ok("node/n1", changedNode("n1", func(r *fsmpb.RegisterNode) { r.HostId, r.Pools[0].PoolId = "host-new", "pool-new" }))
	for desired := range w.s.DesiredVolumes("n1") {
		t.Errorf("the new host is asked for %v", desired)
	}
	w.rejected(Precondition, controller, publish(1, "n1"))
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	require.Equal(t, volumeID(4), w.ok(controller, changed(4, func(c *fsmpb.CreateVolume) { c.Name = "pvc-3" })).GetVolumeId())
	require.Equal(t, 1, w.s.VolumeCount())
}

func TestLosingAHostEndsItsTeardowns(t *testing.T) {
	w := newRevokedWhileUnreachable(t)
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1"})
	require.Empty(t, w.volume(1).Teardowns)
	require.IsType(t, Failed{}, w.volume(1).Phase)
	w.rejected(StaleEpoch, controller, &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1", Reachable: true})
	w.rejected(StaleEpoch, admin, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 1})
	w.rejected(StaleEpoch, admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "another"})
	w.rejected(NotFound, admin, &fsmpb.LoseNode{NodeId: "n9", HostId: "host-n9"})
}

// S1: after the incarnation was replaced a host enables nothing and deletes nothing
// until an operator names the incarnation to it.
func TestS1_AdoptionModeEndsByAnOperatorOnly(t *testing.T) {
	w := newWorld(t)
	w.ready(1, create(1))
	w.ready(2, create(2))
	w.ready(3, create(3))
	w.ok(controller, publish(1, "n1"))
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(2)})
	w.ok(admin, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("second", 16)})
	stage := w.stage(1, "n1", 1)
	adoption := func() {
		w.rejected(Precondition, "node/n1", stage)
		w.rejected(Precondition, controller, publish(3, "n1"))
		w.rejected(NoCapacity, controller, create(4))
		desired, ok := w.s.DesiredVolume("n1", VolumeID(volumeID(2)))
		require.True(t, ok)
		require.Equal(t, GoalKeep, desired.Goal)
		desired, _ = w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
		require.NotNil(t, desired.Publication, "what is published is not taken away")
	}
	adoption()
	for _, said := range []uint64{0, 1, 2} {
		w.ok("node/n1", changedNode("n1", func(r *fsmpb.RegisterNode) { r.Incarnation = said }))
		adoption()
	}
	w.rejected(Forbidden, controller, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
	w.rejected(Precondition, admin, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 1})
	w.twice(admin, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 2})
	w.ok("node/n1", changedNode("n1", func(r *fsmpb.RegisterNode) { r.Incarnation = 1 })) // it has not heard of it yet
	w.ok("node/n1", stage)
	require.Equal(t, uint64(2), EpochFrom(w.ok(controller, publish(3, "n1")).GetEpoch()).Incarnation)
	desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(2)))
	require.Equal(t, GoalRemove, desired.Goal)
}

// S1: a host that acted for a later incarnation than a restored state's is in adoption mode.
func TestS1_AHostOfAnotherIncarnationIsInAdoptionMode(t *testing.T) {
	w := newWorld(t)
	w.ok("node/n2", changedNode("n2", func(r *fsmpb.RegisterNode) { r.Incarnation = 7 }))
	n, _ := w.s.Node("n2")
	require.EqualValues(t, 7, n.Incarnation)
	w.rejected(Precondition, admin, &fsmpb.ReplaceIncarnation{Counter: 7, IncarnationId: bytesOf("x", 16)})
	w.twice(admin, &fsmpb.ReplaceIncarnation{Counter: 8, IncarnationId: bytesOf("x", 16)})
	w.rejected(Precondition, admin, &fsmpb.ReplaceIncarnation{Counter: 8, IncarnationId: bytesOf("y", 16)})
	w.rejected(Invalid, admin, &fsmpb.ReplaceIncarnation{Counter: 9})
	w.ok("node/n1", changedNode("n1", func(r *fsmpb.RegisterNode) { r.Incarnation = 9 }))
	n, _ = w.s.Node("n1")
	require.NotEqual(t, w.s.Cluster().Incarnation, n.Incarnation)
}

// S20: who may propose what is decided in Apply.
func TestS20_CommandsCountFromTheActorConcerned(t *testing.T) {
	about := map[string]proto.Message{
		"RegisterNode":     register("n1"),
		"StageVolume":      &fsmpb.StageVolume{NodeId: "n1"},
		"PublishTarget":    &fsmpb.PublishTarget{NodeId: "n1"},
		"BeginKeyRotation": &fsmpb.BeginKeyRotation{NodeId: "n1"},
		"Report":           &fsmpb.Report{NodeId: "n1", HostId: "host-n1", BootId: "boot-1"},
	}
	for name, cmd := range about {
		for _, actor := range []string{"node/n2", "node/", "node/n1x", "n1", "controller/n1", "admin/n1", "controller/c1", "", "viewer/n1"} {
			t.Run(name+" from "+actor, func(t *testing.T) {
				newWorld(t).rejected(Forbidden, actor, cmd)
			})
		}
		t.Run(name+" from the host", func(t *testing.T) {
			require.NotEqual(t, Forbidden, reasonOf(newWorld(t).apply("node/n1", cmd)))
		})
	}
	for name, cmd := range map[string]proto.Message{
		"LoseNode":        &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1"},
		"AdoptNode":       &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1"},
		"CancelOperation": &fsmpb.CancelOperation{},
		"RetryOperation":  &fsmpb.RetryOperation{},
	} {
		for _, actor := range []string{"controller/c1", "node/n1", "admin/", "viewer/x"} {
			t.Run(name+" from "+actor, func(t *testing.T) { newWorld(t).rejected(Forbidden, actor, cmd) })
		}
	}
	for name, cmd := range map[string]proto.Message{
		"CreateVolume": create(1), "DeleteVolume": &fsmpb.DeleteVolume{}, "PublishVolume": publish(1, "n1"), "UnpublishVolume": &fsmpb.UnpublishVolume{},
		"SetNodeReachable": &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"}, "Checkpoint": &fsmpb.Checkpoint{},
		"SetFeatureLevel": &fsmpb.SetFeatureLevel{}, "ReplaceIncarnation": &fsmpb.ReplaceIncarnation{}, "Bootstrap": bootstrap(),
	} {
		for _, actor := range []string{"node/n1", "viewer/x", "controller/"} {
			t.Run(name+" from "+actor, func(t *testing.T) { newWorld(t).rejected(Forbidden, actor, cmd) })
		}
	}
}

// S20: a report changes only replicas of the host that it comes from.
func TestS20_AReportIsAboutItsOwnReplica(t *testing.T) {
	w := newWorld(t)
	w.ok("node/n2", register("n2"))
	w.ok(controller, changed(1, func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode("n1")} }))
	w.report("n2", deviceCreated(1, gib))
	require.IsType(t, Creating{}, w.volume(1).Phase)
	w.rejected(StaleEpoch, "node/n1", &fsmpb.Report{NodeId: "n1", HostId: "host-n2", BootId: "boot-1", Observations: []*fsmpb.Observation{deviceCreated(1, gib)}})
	w.rejected(StaleEpoch, "node/n1", &fsmpb.Report{NodeId: "n1", HostId: "host-n1", BootId: "boot-0", Observations: []*fsmpb.Observation{deviceCreated(1, gib)}})
	w.rejected(NotFound, "node/n9", &fsmpb.Report{NodeId: "n9"})
	w.report("n1", deviceCreated(1, gib))
	require.Equal(t, Ready{}, w.volume(1).Phase)
}

func TestANodesTopologyIsItsNameItsZoneAndItsLabels(t *testing.T) {
	n := Node{ID: "n1", Labels: []Label{{"rack", "4"}, {ZoneKey, "z"}}}
	require.Equal(t, Topology{{"rack", "4"}, {TopologyKey, "n1"}, {ZoneKey, "z"}}, n.Topology())
	n.Labels = []Label{{TopologyKey, "another"}}
	require.Equal(t, Topology{{TopologyKey, "n1"}}, n.Topology(), "the key is the node's, whatever its labels say")
}

func TestDesiredVolumesComeInOrderWithTheirGoals(t *testing.T) {
	w := newWorld(t)
	w.ok("node/n2", register("n2"))
	for n := 4; n > 0; n-- {
		w.ok(controller, changed(n, func(c *fsmpb.CreateVolume) { c.Requisite = []*fsmpb.Topology{onNode([]string{"n2", "n1"}[n%2])} }))
	}
	var got []DesiredVolume
	for desired := range w.s.DesiredVolumes("n1") {
		got = append(got, desired)
	}
	require.Equal(t, []VolumeID{VolumeID(volumeID(1)), VolumeID(volumeID(3))}, []VolumeID{got[0].Volume, got[1].Volume})
	require.Equal(t, DesiredVolume{
		Volume: VolumeID(volumeID(1)), Pool: "pool-n1", Size: gib, Goal: GoalCreate, Operation: w.volume(1).Operation.ID,
		Format: Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED}, ReplicaState: ReplicaPlanned,
	}, got[0])
	_, ok := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
	require.False(t, ok)
	_, ok = w.s.DesiredVolume("n9", VolumeID(volumeID(1)))
	require.False(t, ok)
	_, ok = w.s.DesiredVolume("n1", VolumeID(volumeID(9)))
	require.False(t, ok)
}

// S1: a backup was restored twice, and the host met the other life: the counters are equal, the ids are not. It is in
// adoption mode, until this cluster is in an incarnation above both and an operator adopts it.
func TestS1_AHostThatMetAnotherRestoreOfTheSameBackup(t *testing.T) {
	w := newWorld(t)
	w.ok(admin, &fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("this", 16)})
	for _, node := range []string{"n1", "n2"} {
		w.ok("node/"+node, changedNode(node, func(r *fsmpb.RegisterNode) { r.Incarnation, r.IncarnationId = 2, bytesOf("other", 16) }))
		n, _ := w.s.Node(NodeID(node))
		require.EqualValues(t, 3, n.Incarnation, node)
	}
	w.rejected(Precondition, admin, &fsmpb.ReplaceIncarnation{Counter: 3, IncarnationId: bytesOf("above", 16)})
	w.ok(admin, &fsmpb.ReplaceIncarnation{Counter: 4, IncarnationId: bytesOf("above", 16)})
	w.twice(admin, &fsmpb.AdoptNode{NodeId: "n1", HostId: "host-n1", Incarnation: 4})
	w.ok("node/n1", changedNode("n1", func(r *fsmpb.RegisterNode) { r.Incarnation, r.IncarnationId = 4, bytesOf("above", 16) }))
	n, _ := w.s.Node("n1")
	require.EqualValues(t, 4, n.Incarnation)
}
