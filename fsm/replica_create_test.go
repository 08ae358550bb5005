package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	protocolA = fsmpb.Protocol_PROTOCOL_A
	protocolC = fsmpb.Protocol_PROTOCOL_C
)

func TestAReplicatedVolumeIsReadyAfterItsInitialSync(t *testing.T) {
	w := newPair(t)
	w.twice(controller, createReplicated(1, protocolC))
	v := w.volume(1)
	require.Equal(t, []ReplicaSync{{}, {}}, syncsOf(v, "host-n1", "host-n2"))
	require.Equal(t, HostID("host-n1"), v.Replication.Seed)
	desired, _ := w.s.DesiredVolume("n2", v.ID)
	require.Equal(t, GoalCreate, desired.Goal)
	require.Equal(t, &DesiredReplica{
		Protocol: protocolC, Minor: 100, Port: 7800, Generation: v.Created.Index, Address: "10.0.0.2", Connect: true,
		Peer: &ReplicaPeer{Node: "n1", Host: "host-n1", Address: "10.0.0.1", PublicKey: bytesOf("key of n1", 32)},
	}, desired.Replication)

	made := &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}}
	for _, node := range []string{"n1", "n2"} {
		w.attach(1, node, 1)
		w.report(node, volumeObservation(1, made))
	}
	w.rejected(Busy, controller, publish(1, "n1"))
	w.reportCurrent(1, "n1", ReplicaObservation{Disk: inconsistent, PeerDisk: inconsistent, Connection: connected})
	w.reportCurrent(1, "n1", inSyncObservation(7))
	require.Equal(t, Creating{}, w.volume(1).Phase, "one host's word is not enough")
	w.reportCurrent(1, "n2", inSyncObservation(8))
	require.Equal(t, Creating{}, w.volume(1).Phase, "the two have not one content")
	w.reportCurrent(1, "n2", inSyncObservation(7))
	v = w.volume(1)
	require.Equal(t, Ready{}, v.Phase)
	require.Nil(t, v.Operation)
	require.NotZero(t, v.Replication.InitialSyncIndex)
	for _, l := range v.ActiveReplicas() {
		require.True(t, l.UpToDate)
		require.Equal(t, RecordedUUID{Value: 7, Index: v.Replication.InitialSyncIndex}, l.InSyncUUID)
	}
	require.Equal(t, Condition{}, w.s.ReplicationCondition(v))
}

func TestReplicationThatCannotBeServedIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world, *fsmpb.CreateVolume)
		want   Reason
		says   string
	}{
		"three":                      {func(_ *world, c *fsmpb.CreateVolume) { c.Replicas = 3 }, Invalid, "DRBD 8.4 holds two replicas, 3 were asked for"},
		"a protocol for one":         {func(_ *world, c *fsmpb.CreateVolume) { c.Replicas = 1 }, Invalid, "two replicas"},
		"an unknown protocol":        {func(_ *world, c *fsmpb.CreateVolume) { c.Protocol = 9 }, Invalid, "protocol 9"},
		"one host is unreachable":    {func(w *world, _ *fsmpb.CreateVolume) { w.setUnreachable("n2", true) }, NoCapacity, "no second host"},
		"one host is cordoned":       {func(w *world, _ *fsmpb.CreateVolume) { w.ok(admin, scheduleNode("n2", true)) }, NoCapacity, "no second host"},
		"one host holds no replicas": {func(w *world, _ *fsmpb.CreateVolume) { w.ok("node/n2", register("n2")) }, NoCapacity, "no second host"},
		"no host holds replicas": {func(w *world, _ *fsmpb.CreateVolume) {
			w.ok("node/n1", register("n1"))
			w.ok("node/n2", register("n2"))
		}, NoCapacity, "holds replicas"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPair(t)
			c := createReplicated(1, protocolC)
			tc.change(w, c)
			require.Contains(t, w.rejected(tc.want, controller, c).GetRejection().GetMessage(), tc.says)
		})
	}
}

func scheduleNode(node string, cordoned bool) *fsmpb.ScheduleNode {
	return &fsmpb.ScheduleNode{NodeId: node, HostId: "host-" + node, Cordoned: cordoned}
}

func TestACordonedNodeGetsNothingNewUntilItIsScheduledAgain(t *testing.T) {
	w := newWorld(t)
	w.twice(admin, scheduleNode("n1", true))
	w.rejected(NoCapacity, controller, create(1))
	w.ok("node/n1", register("n1"))
	w.rejected(NoCapacity, controller, create(1))
	w.twice(admin, scheduleNode("n1", false))
	w.ok(controller, create(1))
	w.rejected(Forbidden, controller, scheduleNode("n1", true))
	w.rejected(StaleEpoch, admin, &fsmpb.ScheduleNode{NodeId: "n1", HostId: "host-x"})
	w.rejected(NotFound, admin, scheduleNode("n7", true))
}

func TestTheSameNameWithOtherReplicasIsAnotherVolume(t *testing.T) {
	w := newPair(t)
	w.twice(controller, createReplicated(1, protocolC))
	w.rejected(Incompatible, controller, createReplicated(1, protocolA))
	w.rejected(Incompatible, controller, create(1))
	w.twice(controller, create(2))
	w.rejected(Incompatible, controller, createReplicated(2, protocolC))
	again := createReplicated(1, fsmpb.Protocol_PROTOCOL_UNKNOWN)
	require.Equal(t, volumeID(1), w.ok(controller, again).GetVolumeId(), "no protocol is C")
}

// zoned is a world of nodes with a zone each; the pools of later ones are larger.
func zoned(t *testing.T, zones ...string) *world {
	w := &world{t: t, s: New()}
	w.ok("controller/c1", bootstrap())
	for i, zone := range zones {
		r := replicating([]string{"n1", "n2", "n3", "n4"}[i])
		r.Pools[0].CapacityBytes += int64(i) * gib
		if zone != "" {
			r.Labels = []*fsmpb.Label{{Key: ZoneKey, Value: zone}}
		}
		w.ok("node/"+r.NodeId, r)
	}
	return w
}

func TestTwoReplicasArePlacedApart(t *testing.T) {
	for name, tc := range map[string]struct {
		zones     []string
		requisite []*fsmpb.Topology
		preferred []*fsmpb.Topology
		want      [2]NodeID
	}{
		"the emptiest two without zones":                       {zones: []string{"", "", ""}, want: [2]NodeID{"n3", "n2"}},
		"in two zones rather than in the emptiest":             {zones: []string{"a", "b", "b"}, want: [2]NodeID{"n3", "n1"}},
		"in one zone when there is no other":                   {zones: []string{"a", "a"}, want: [2]NodeID{"n2", "n1"}},
		"the second within the topology too, even in one zone": {zones: []string{"a", "b", "b"}, requisite: terms("n2", "n3"), want: [2]NodeID{"n3", "n2"}},
		"the second elsewhere when one node is required":       {zones: []string{"a", "b", "b"}, requisite: terms("n2"), want: [2]NodeID{"n2", "n1"}},
		"the first preferred, the second in another zone":      {zones: []string{"a", "a", "b"}, preferred: terms("n1", "n2"), want: [2]NodeID{"n1", "n3"}},
		"the second by preference among equals":                {zones: []string{"a", "b", "b"}, preferred: terms("n1", "n2"), want: [2]NodeID{"n1", "n2"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := zoned(t, tc.zones...)
			c := createReplicated(1, protocolC)
			c.Requisite, c.Preferred = tc.requisite, tc.preferred
			w.twice(controller, c)
			v := w.volume(1)
			require.Equal(t, tc.want, [2]NodeID{v.Replicas[0].Node, v.Replicas[1].Node})
		})
	}
}

func terms(nodes ...string) (all []*fsmpb.Topology) {
	for _, node := range nodes {
		all = append(all, &fsmpb.Topology{Segments: []*fsmpb.Label{{Key: TopologyKey, Value: node}}})
	}
	return all
}

// S18, and scenario 8: minors and ports are free when the last host reported.
func TestS18_AMinorIsUsedAgainOnlyAfterBothHostsReportedItGone(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.ok(controller, createReplicated(2, protocolC))
	require.Equal(t, [2]uint32{101, 7801}, [2]uint32{w.volume(2).Replication.Minor, w.volume(2).Replication.Port})
	gone := volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}})
	w.report("n1", gone)
	w.ok(controller, createReplicated(3, protocolC))
	require.EqualValues(t, 102, w.volume(3).Replication.Minor)
	desired, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
	require.Equal(t, GoalRemove, desired.Goal)
	require.EqualValues(t, 100, desired.Replication.Minor)
	w.report("n2", gone)
	_, kept := w.s.Volume(VolumeID(volumeID(1)))
	require.False(t, kept)
	w.ok(controller, createReplicated(4, protocolC))
	require.Equal(t, [2]uint32{100, 7800}, [2]uint32{w.volume(4).Replication.Minor, w.volume(4).Replication.Port})
}

// S18: the name is free at once, and the new volume has another id, minor and port.
func TestS18_TheSameNameIsFreeAtOnceAndGetsNothingOfTheOldVolume(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.setUnreachable("n2", true)
	w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.report("n1", volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	w.setUnreachable("n2", false)
	c := createReplicated(2, protocolC)
	c.Name = "pvc-1"
	w.ok(controller, c)
	require.NotEqual(t, w.volume(1).Replication.Port, w.volume(2).Replication.Port)
	require.Equal(t, Deleting{Since: w.volume(1).Phase.(Deleting).Since}, w.volume(1).Phase, "the removal is still pending on n2")
}

func TestAFailedReplicaFailsTheNewVolume(t *testing.T) {
	w := newPairAt(t, Level1)
	w.ok(controller, createReplicated(1, protocolC))
	w.ok(admin, &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2", Reason: "burnt"})
	require.True(t, w.volume(1).isFailed())
	w.rejected(Precondition, admin, &fsmpb.RetryOperation{OperationId: uint64(w.volume(1).Operation.ID)})
	w.twice(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.report("n1", volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	_, kept := w.s.Volume(VolumeID(volumeID(1)))
	require.False(t, kept)
}

// The initial sync of a volume with a source is not complete while only one of its
// replicas has the content.
func TestAVolumeFromASourceIsReadyOnlyAfterItsInitialSync(t *testing.T) {
	w := newReplicated(t, protocolC)
	c := createReplicated(2, protocolC)
	c.Source = &fsmpb.Source{VolumeId: volumeID(1)}
	w.ok(controller, c)
	v := w.volume(2)
	require.Equal(t, HostID("host-n1"), v.Replication.Seed)
	seed, _ := w.s.DesiredVolume("n1", v.ID)
	other, _ := w.s.DesiredVolume("n2", v.ID)
	require.Equal(t, VolumeID(volumeID(1)), seed.Source.Volume)
	require.True(t, seed.Replication.Seed)
	require.Zero(t, other.Source, "the other is made empty, and synchronised")
	require.True(t, other.Replication.SyncFromSeed)
	for _, node := range []string{"n1", "n2"} {
		w.attach(2, node, 1)
		w.report(node, volumeObservation(2, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}}))
		w.reportCurrent(2, node, inSyncObservation(9))
	}
	before := w.currentObservation(2, "n2", inSyncObservation(9))
	require.Equal(t, Creating{}, w.volume(2).Phase, "the kernel calls both up to date before the content is copied")
	w.reportCurrent(2, "n2", ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, UUID: 9})
	other, _ = w.s.DesiredVolume("n2", v.ID)
	require.False(t, other.Replication.SyncFromSeed)
	w.reportObservation(2, "n2", before)
	w.reportCurrent(2, "n1", inSyncObservation(9))
	require.Equal(t, Creating{}, w.volume(2).Phase, "what was seen before it began does not count")
	w.reportCurrent(2, "n2", inSyncObservation(9))
	require.Equal(t, Ready{}, w.volume(2).Phase)
}

// Only the observations of a volume with a source begin to count anew when the copying begins.
func TestASyncOfAVolumeWithoutASourceKeepsItsGeneration(t *testing.T) {
	w := newPair(t)
	w.ok(controller, createReplicated(1, protocolC))
	v := w.volume(1)
	for _, node := range []string{"n1", "n2"} {
		w.attach(1, node, 1)
		w.report(node, volumeObservation(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}}))
	}
	w.reportCurrent(1, "n1", inSyncObservation(7))
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, UUID: 7})
	require.Equal(t, v.Created.Index, w.volume(1).Replication.Generation)
	w.reportCurrent(1, "n2", inSyncObservation(7))
	require.Equal(t, Ready{}, w.volume(1).Phase)
}
