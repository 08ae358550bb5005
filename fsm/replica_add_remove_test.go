package fsm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func removeReplica(node string) *fsmpb.RemoveReplica {
	return &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: node, HostId: "host-" + node, Reason: "drained"}
}

// S17, S18: a replica is replaced on another node while the volume is used.
func TestAReplicaIsReplacedWhileTheVolumeIsInUse(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.primary(1, "n1", 7)
	w.rejected(InUse, controller, removeReplica("n1"))
	w.twice(controller, removeReplica("n2"))
	v := w.volume(1)
	require.Equal(t, []*Replica{v.ActiveReplica("host-n1")}, v.ActiveReplicas())
	require.Equal(t, OpReplicaChange, v.Operation.Kind)
	leaving, _ := w.s.DesiredVolume("n2", v.ID)
	require.Equal(t, GoalRemove, leaving.Goal)
	require.False(t, leaving.Replication.Connect)
	staying, _ := w.s.DesiredVolume("n1", v.ID)
	require.Equal(t, GoalKeep, staying.Goal)
	require.Nil(t, staying.Replication.Peer)
	require.Equal(t, selfOutdated, w.ok("node/n2", &fsmpb.Outdate{
		VolumeId: volumeID(1), NodeId: "n2", HostId: "host-n2", BootId: "boot-1", Generation: v.Replication.Generation,
	}).GetVerdict())

	require.Equal(t, peerOutdated, w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7))).GetVerdict())
	w.reportCurrent(1, "n1", ReplicaObservation{Primary: true, Disk: upToDate, Connection: connecting, UUID: 9})
	w.report("n2", volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	require.Len(t, w.volume(1).Replicas, 1)
	require.Nil(t, w.volume(1).Operation)

	w.ok(admin, scheduleNode("n2", true))
	w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
	v = w.volume(1)
	require.Equal(t, Replica{Node: "n3", Host: "host-n3", Pool: "pool-n3", State: ReplicaPlanned, ReplicaSync: &ReplicaSync{Outdated: true}}, v.Replicas[1])
	made, _ := w.s.DesiredVolume("n3", v.ID)
	require.Equal(t, GoalCreate, made.Goal)
	require.Equal(t, NodeID("n1"), made.Replication.Peer.Node)
	require.Contains(t, w.s.ReplicationCondition(v).Message, "being made")
	w.rejected(InUse, controller, publish(1, "n3"))
	w.attach(1, "n3", 1)
	w.report("n3", volumeObservation(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: v.Size}}))
	w.reportCurrent(1, "n3", ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, SyncPercent: 40})
	require.Contains(t, w.s.ReplicationCondition(w.volume(1)).Message, "40 %")
	observed := inSyncObservation(9)
	observed.Primary = true
	w.reportCurrent(1, "n1", observed)
	require.NotNil(t, w.volume(1).Operation)
	w.reportCurrent(1, "n3", inSyncObservation(9))
	require.Nil(t, w.volume(1).Operation)
	require.True(t, w.replicaSync(1, "n3").UpToDate)
	require.Equal(t, Condition{}, w.s.ReplicationCondition(w.volume(1)))
	require.Equal(t, "", addReplicaOf(w.ok(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})))
}

func addReplicaOf(o *fsmpb.Outcome) string {
	if o.GetOperationId() != 0 {
		return "an operation"
	}
	return ""
}

func TestTheLastReplicaThatIsUpToDateStays(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*world)
		want   Reason
	}{
		"both are up to date":           {},
		"the other one was rebooted":    {before: func(w *world) { w.reboot("n1") }, want: Precondition},
		"the other one cannot be asked": {before: func(w *world) { w.setUnreachable("n1", true) }, want: Precondition},
		"the other one was not seen since the last grant": {before: func(w *world) {
			w.primary(1, "n2", 7)
			w.release(1, "n2", 8)
		}, want: Precondition},
		"the other one is gone": {before: func(w *world) {
			w.ok(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
		}, want: Precondition},
		"it is published": {before: func(w *world) { w.ok(controller, publish(1, "n2")) }, want: InUse},
		"its teardown is pending, not outdated": {before: func(w *world) {
			w.primary(1, "n2", 7)
			w.setUnreachable("n2", true)
			w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
			w.reportCurrent(1, "n1", disconnectedObservation(7, standAlone))
		}, want: InUse},
		"the volume is being expanded": {before: func(w *world) { w.ok(controller, expandVolume(1, 2*gib, 0)) }, want: Busy},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			if tc.before != nil {
				tc.before(w)
			}
			if tc.want != 0 {
				w.rejected(tc.want, controller, removeReplica("n2"))
				return
			}
			w.twice(controller, removeReplica("n2"))
		})
	}
}

// An outdated replica whose host does not come back is replaced; its teardown and the
// removal of its device stay pending.
func TestAnUnreachableOutdatedReplicaIsReplaced(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ok("node/n3", replicating("n3"))
	w.primary(1, "n1", 7)
	publicationRevoked1(w)
	takeover1(w)
	won := disconnectedObservation(9, standAlone)
	won.Primary = true
	w.reportCurrent(1, "n2", won)
	w.twice(controller, removeReplica("n1"))
	require.Equal(t, OpTeardown, w.volume(1).Operation.Kind, "its pending teardown comes first")
	epoch := w.volume(1).Teardowns[0].Epoch
	w.setUnreachable("n1", false)
	w.report("n1", volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	require.Len(t, w.volume(1).Replicas, 2, "not before it ended what was revoked")
	w.unstaged(1, "n1", epoch)
	require.Equal(t, OpReplicaChange, w.volume(1).Operation.Kind)
	w.report("n1", volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	require.Len(t, w.volume(1).Replicas, 1)
	w.rejected(NotFound, controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n9"})
	w.rejected(NoCapacity, controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n2"})
	w.ok(controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
}

func TestReplicasAreAddedToReplicatedVolumesOnly(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.ready(2, changed(2, func(c *fsmpb.CreateVolume) { c.Requisite = terms("n1") }))
	w.rejected(Precondition, controller, &fsmpb.AddReplica{VolumeId: volumeID(2)})
	w.rejected(Precondition, controller, &fsmpb.RemoveReplica{VolumeId: volumeID(2), NodeId: "n1", HostId: "host-n1"})
	w.rejected(NotFound, controller, &fsmpb.AddReplica{VolumeId: volumeID(9)})
	w.twice(controller, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: "n7", HostId: "host-n7"})
	w.rejected(Busy, controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: "n3"})
}

// An expansion is done when both hosts see the larger device; the primary grows it when
// both devices below have room.
func TestAReplicatedVolumeGrowsWhenBothHostsReportedIt(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.twice(controller, expandVolume(1, 2*gib, 0))
	room := func(node string, bytes int64) {
		observed := inSyncObservation(7)
		observed.Primary, observed.BackingCapacity = node == "n1", bytes
		w.reportCurrent(1, node, observed)
	}
	room("n1", 2*gib)
	desired, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.Zero(t, desired.Replication.BackingCapacity)
	room("n2", gib)
	desired, _ = w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.Equal(t, gib, desired.Replication.BackingCapacity)
	room("n2", 2*gib)
	desired, _ = w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	require.Equal(t, 2*gib, desired.Replication.BackingCapacity)
	grown := volumeObservation(1, &fsmpb.Observation_DeviceGrown{DeviceGrown: &fsmpb.DeviceGrown{SizeBytes: 2 * gib}})
	w.report("n1", grown)
	require.NotNil(t, w.volume(1).Operation)
	w.report("n2", grown)
	require.Nil(t, w.volume(1).Operation)
}

// Snapshots and clones are taken where the volume is published, else where it is up to
// date.
func TestAReplicatedVolumesSnapshotIsTakenWhereItIsUpToDate(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*world)
		want   NodeID
		no     Reason
	}{
		"on the seed's host":            {want: "n1"},
		"where it is published":         {before: func(w *world) { w.primary(1, "n2", 7) }, want: "n2"},
		"where it is up to date":        {before: func(w *world) { w.attach(1, "n1", 2) }, want: "n2"},
		"where it can be asked":         {before: func(w *world) { w.setUnreachable("n1", true) }, want: "n2"},
		"not of a primary without disk": {before: func(w *world) { w.primary(1, "n2", 7); w.attach(1, "n2", 2) }, no: Precondition},
		"not when none is up to date":   {before: func(w *world) { w.attach(1, "n1", 2); w.attach(1, "n2", 2) }, no: Precondition},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			if tc.before != nil {
				tc.before(w)
			}
			c := &fsmpb.CreateSnapshot{SnapshotId: snapshotID(1), Name: "s", SourceVolumeId: volumeID(1)}
			clone := create(2)
			clone.Source = &fsmpb.Source{VolumeId: volumeID(1)}
			if tc.no != 0 {
				w.rejected(tc.no, controller, c)
				w.rejected(tc.no, controller, clone)
				return
			}
			w.twice(controller, c)
			n, _ := w.s.Snapshot(SnapshotID(snapshotID(1)))
			require.Equal(t, tc.want, n.Node)
			require.Equal(t, PoolID("pool-"+string(tc.want)), n.Pool)
			w.twice(controller, clone)
			require.Equal(t, tc.want, w.volume(2).Replicas[0].Node)
		})
	}
}

func TestReplicationConditionSaysWhatIsWrong(t *testing.T) {
	for says, observed := range map[string]ReplicaObservation{
		"I/O of primary n1 is frozen: it waits for a verdict on its peer":                          disconnectedPrimary(7),
		"the disk of the replica on node n1 was given up by its kernel: all of it is copied again": {Primary: true, Disk: diskless, PeerDisk: upToDate, Connection: connected},
		"the replica on node n1 is being synchronised, 60 %":                                       {Primary: true, Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, SyncPercent: 60},
		"node n1 found 4096 bytes out of sync with the other replica":                              {Primary: true, Disk: upToDate, PeerDisk: upToDate, Connection: connected, UUID: 7, OutOfSync: 4096},
		"the replica on node n1 is not attached":                                                   {Unconfigured: true},
	} {
		w := newReplicated(t, protocolC)
		w.primary(1, "n1", 7)
		w.reportCurrent(1, "n1", observed)
		require.Equal(t, Condition{Abnormal: true, Message: says}, w.s.ReplicationCondition(w.volume(1)))
	}
	w := newWorld(t)
	require.Equal(t, Condition{}, w.s.ReplicationCondition(w.ready(1, create(1))))
	require.True(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))))
}

// S70: a volume whose replica on n1 was removed and that then lost n2 has none that
// another could be copied from.
func TestNoReplicaIsAddedToAVolumeThatHasNoneLeft(t *testing.T) {
	w := newWorldAt(t, Level1)
	w.ok("node/n1", replicating("n1"))
	w.ok("node/n2", replicating("n2"))
	w.readyReplicated(1, createReplicated(1, protocolC))
	w.ok("node/n3", replicating("n3"))
	w.ok(controller, removeReplica("n1"))
	w.ok("admin/ann", &fsmpb.LoseNode{NodeId: "n2", HostId: "host-n2", Reason: "burnt"})
	for _, node := range []string{"", "n3"} {
		w.rejected(Precondition, controller, &fsmpb.AddReplica{VolumeId: volumeID(1), NodeId: node})
	}
}

// S25: a volume is in repair while it is Ready and lacks a replica, or one of them is made, removed or synchronised.
func TestWhichVolumesAreInRepair(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*world)
		want   int
	}{
		"all are there":           {func(*world) {}, 0},
		"one is being created":    {func(w *world) { w.ok(controller, createReplicated(2, protocolC)) }, 0},
		"a host is lost":          {func(w *world) { w.loseNode("n2") }, 1},
		"a replica is to be gone": {func(w *world) { w.ok(admin, removeReplica("n2")) }, 1},
		"it is being deleted":     {func(w *world) { w.loseNode("n2"); w.ok(controller, &fsmpb.DeleteVolume{VolumeId: volumeID(1)}) }, 0},
	} {
		w := newReplicated(t, protocolC)
		tc.change(w)
		require.Len(t, slices.Collect(w.s.VolumesInRepair()), tc.want, name)
		require.Len(t, slices.Collect(restored(t, w.s).VolumesInRepair()), tc.want, name)
	}
}

// A replica that replaces another one is placed in another zone than the one that stays.
func TestAReplacementIsPlacedInAnotherZone(t *testing.T) {
	w := zoned(t, "a", "b", "b", "a")
	c := createReplicated(1, protocolC)
	c.Preferred = terms("n1", "n2")
	w.readyReplicated(1, c)
	w.ok(controller, removeReplica("n2"))
	w.twice(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
	require.NotNil(t, w.volume(1).ActiveReplica("host-n3"), "not on n4, whose pool is the emptiest")
}

// S71: an outdated replica takes part again only where no other one is leaving.
func TestTheLastLeavingReplicaThatIsNotOutdatedIsRestored(t *testing.T) {
	for _, tc := range []struct {
		outdated []bool // in the order in which they left
		want     HostID
	}{
		{outdated: []bool{false, true}, want: "host-0"},
		{outdated: []bool{true, false}, want: "host-1"},
		{outdated: []bool{false, false, true}, want: "host-1"},
		{outdated: []bool{true, true}, want: "host-1"},
		{},
	} {
		v := &Volume{Replication: &Replication{}}
		for i, outdated := range tc.outdated {
			host := HostID(fmt.Sprint("host-", i))
			v.Replicas = append(v.Replicas, Replica{Host: host, State: ReplicaLeaving, ReplicaSync: &ReplicaSync{Outdated: outdated}})
			v.Replication.Leaving = append(v.Replication.Leaving, host)
		}
		r, ok := v.lastLeaving()
		require.Equal(t, tc.want, r.Host, "%v", tc.outdated)
		require.Equal(t, len(tc.outdated) > 0, ok)
	}
}
