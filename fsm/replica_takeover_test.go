package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	peerOutdated = fsmpb.Verdict_VERDICT_PEER_OUTDATED
	selfOutdated = fsmpb.Verdict_VERDICT_SELF_OUTDATED
	refused      = fsmpb.Verdict_VERDICT_REFUSED
	staleVerdict = fsmpb.Verdict_VERDICT_STALE
)

// publicationRevoked1 is the first half of a takeover of volume 1 from n1: it is unpublished
// while n1 is unreachable.
func publicationRevoked1(w *world) {
	w.setUnreachable("n1", true)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
}

// takeover1 is the second half of a takeover of volume 1.
func takeover1(w *world) {
	w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone))
	require.True(w.t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))))
	w.ok(controller, publish(1, "n2"))
	w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
}

// S10: UpToDate is recorded as both hosts observe it, also after a reconnect without
// resync.
func TestS10_AReplicaIsUpToDateAgainWhenBothHostsObserveIt(t *testing.T) {
	primary := inSyncObservation(7)
	primary.Primary = true
	for name, tc := range map[string]struct {
		n1, n2 ReplicaObservation
		want   bool
	}{
		"both see both whole":               {primary, inSyncObservation(7), true},
		"two contents":                      {primary, inSyncObservation(8), false},
		"the primary still synchronises it": {ReplicaObservation{Primary: true, Disk: upToDate, PeerDisk: inconsistent, Connection: syncSource, UUID: 7}, inSyncObservation(7), false},
		"its own disk is not whole yet":     {primary, ReplicaObservation{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, UUID: 7}, false},
		"the primary does not see it":       {disconnectedPrimary(7), inSyncObservation(7), false},
		"it does not see the primary":       {primary, disconnectedObservation(7, connecting), false},
		"contents without a generation":     {ReplicaObservation{Primary: true, Disk: upToDate, PeerDisk: upToDate, Connection: connected}, inSyncObservation(0), false},
		"while they are compared":           {ReplicaObservation{Primary: true, Disk: upToDate, PeerDisk: upToDate, Connection: fsmpb.ConnectionState_CONNECTION_STATE_VERIFYING, UUID: 7}, inSyncObservation(7), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			ask1(w)
			w.reportCurrent(1, "n2", tc.n2)
			require.False(t, w.replicaSync(1, "n2").UpToDate, "not by its own word")
			w.reportCurrent(1, "n1", tc.n1)
			require.Equal(t, tc.want, w.replicaSync(1, "n2").UpToDate)
			require.Equal(t, !tc.want, w.replicaSync(1, "n2").Outdated)
		})
	}
}

// S8: the takeover in four steps; from a host that lost its power and its links, or that
// is cut off from the controllers only.
func TestS8_ATakeoverHasFourSteps(t *testing.T) {
	for name, before := range map[string]ReplicaObservation{
		"the old primary is gone":                      disconnectedObservation(7, connecting),
		"the old primary is cut from controllers only": inSyncObservation(7),
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			id := VolumeID(volumeID(1))
			w.reportCurrent(1, "n2", before)
			w.setUnreachable("n1", true)
			desired, _ := w.s.DesiredVolume("n2", id)
			require.True(t, desired.Replication.Connect)

			// (1) Revoke: its requests to outdate the peer are refused from here on.
			w.twice(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
			require.Equal(t, []Teardown{{Node: "n1", Host: "host-n1", Epoch: w.volume(1).Teardowns[0].Epoch}}, w.volume(1).Teardowns)
			require.Equal(t, refused, w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7))).GetVerdict())
			require.False(t, w.s.FormerPrimaryIsolated(id))

			// (2) The other host disconnects.
			desired, _ = w.s.DesiredVolume("n2", id)
			require.False(t, desired.Replication.Connect)
			w.reportCurrent(1, "n2", before)
			require.False(t, w.s.FormerPrimaryIsolated(id), "it waits for its peer, which may come back by itself")
			w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone))
			require.True(t, w.s.FormerPrimaryIsolated(id))

			// (3) Grant and outdate in one entry, (4) answer when it is primary.
			w.twice(controller, publish(1, "n2"))
			w.rejected(Busy, "node/n2", w.setPrimary(1, "n2", before))
			out := w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
			r := w.volume(1).Replication
			require.Equal(t, []uint64{out.GetIndex(), out.GetIndex(), out.GetIndex()}, []uint64{r.Generation, r.LastGrantIndex, r.Primary.Index})
			require.True(t, w.replicaSync(1, "n1").Outdated)
			require.False(t, w.s.PromotionDone(w.volume(1), "n2"))
			require.Equal(t, peerOutdated, w.ok("node/n2", w.outdate(1, "n2", disconnectedObservation(7, standAlone))).GetVerdict())
			won := disconnectedObservation(9, standAlone)
			won.Primary = true
			w.reportCurrent(1, "n2", won)
			require.True(t, w.s.PromotionDone(w.volume(1), "n2"))
			require.Equal(t, selfOutdated, w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7))).GetVerdict())
			require.True(t, w.s.FormerPrimaryIsolated(id))
		})
	}
}

// S9: the outdated host is told to tear down, and the two stay disconnected until it did.
func TestS9_AnOutdatedReplicaReconnectsOnlyAfterItsTeardown(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publication("n1").Epoch
	publicationRevoked1(w)
	takeover1(w)
	w.setUnreachable("n1", false)
	loser, _ := w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	winner, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
	require.True(t, loser.Replication.Outdated)
	require.Equal(t, epoch, loser.Teardown.Epoch)
	require.False(t, loser.Replication.Connect)
	require.False(t, winner.Replication.Connect, "no split brain: the loser is not met before it was torn down")
	w.rejected(InUse, controller, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: "n2", HostId: "host-n2"})

	w.unstaged(1, "n1", epoch)
	require.NotEmpty(t, w.volume(1).Teardowns, "it said that it is primary, and not yet that it is no more")
	w.reportCurrent(1, "n1", ReplicaObservation{Unconfigured: true})
	w.unstaged(1, "n1", epoch)
	require.Empty(t, w.volume(1).Teardowns)
	require.Nil(t, w.volume(1).Operation)
	loser, _ = w.s.DesiredVolume("n1", VolumeID(volumeID(1)))
	winner, _ = w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
	require.True(t, loser.Replication.Connect && winner.Replication.Connect)
	require.True(t, loser.Replication.Outdated, "it connects by discarding its own")
	w.rejected(InUse, controller, publish(1, "n1"))

	w.attach(1, "n1", 2)
	w.reportCurrent(1, "n1", inSyncObservation(9))
	won := inSyncObservation(9)
	won.Primary = true
	w.reportCurrent(1, "n2", won)
	require.True(t, w.replicaSync(1, "n1").UpToDate)
}

// S8: a reachable host ends its use first; no other host is promoted until then.
func TestS8_AReachableHostUnstagesFirst(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publication("n1").Epoch
	w.twice(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	require.NotEmpty(t, w.volume(1).Teardowns, "it is primary, staged or not")
	require.True(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))), "nobody waits for a host that can be asked")
	w.twice(controller, publish(1, "n2"))
	desired, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
	require.True(t, desired.Replication.Connect)
	w.rejected(Busy, "node/n2", w.setPrimary(1, "n2", inSyncObservation(7)))
	w.rejected(Busy, "node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
	w.reportCurrent(1, "n1", inSyncObservation(7))
	w.reportCurrent(1, "n2", inSyncObservation(7))
	require.Zero(t, w.replicaSync(1, "n2").InSyncUUID, "its teardown is still pending")
	w.unstaged(1, "n1", epoch)
	require.Empty(t, w.volume(1).Teardowns)
	w.ok("node/n2", w.setPrimary(1, "n2", inSyncObservation(7)))
	require.Equal(t, HostID("host-n2"), w.s.PrimaryHost(w.volume(1)))
}

// An observation from before a revoked host went away and came back does not let the
// other one be promoted.
func TestS8_ObservationsFromBeforeTheOldPrimaryCameBackDoNotCount(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	publicationRevoked1(w)
	w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone))
	w.ok(controller, publish(1, "n2"))
	early := w.setPrimary(1, "n2", disconnectedObservation(7, standAlone))
	w.setUnreachable("n1", false)
	w.rejected(Busy, "node/n2", early)
	w.setUnreachable("n1", true)
	require.False(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))))
	w.rejected(Busy, "node/n2", early)
	w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
}

// S31: staged on a reachable host the volume stays published, and the host is requested
// to unstage it; on an unreachable one this is the takeover.
func TestS31_AStagedReplicatedVolumeIsUnpublishedOnlyFromAnUnreachableHost(t *testing.T) {
	for _, level := range []uint32{Level1, Level2} {
		w := newReplicated(t, protocolC)
		w.s.cluster.FeatureLevel, w.s.cluster.Chain = level, nil
		w.primary(1, "n1", 7)
		w.ok("node/n1", w.stage(1, "n1", 1))
		if level == Level2 {
			w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		}
		w.rejected(InUse, controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		require.Equal(t, level == Level2, w.volume(1).Publication("n1").Ending)
		w.setUnreachable("n1", true)
		out := w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		require.NotZero(t, out.GetOperationId())
		require.Equal(t, OpTeardown, w.volume(1).Operation.Kind)
		require.False(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))))
	}
}

// S31: what uses it is named; nothing more is staged or bound under a publication that is
// ending; publishing it again cancels that; and it ends when its host unstaged it.
func TestS31_AReplicatedVolumeIsUnpublishedAfterItsHostUnstaged(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.ok("node/n1", w.stage(1, "n1", 1))
	unpublish := &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"}
	epoch := w.volume(1).Publication("n1").Epoch
	busy := &fsmpb.Observation{VolumeId: volumeID(1), Epoch: epoch.Proto(),
		Fact: &fsmpb.Observation_StagingInUse{StagingInUse: &fsmpb.StagingInUse{Detail: "the mount on /x is in use"}}}
	w.report("n1", busy)
	require.Empty(t, w.volume(1).Publication("n1").UsedBy, "nobody asked")
	w.ok(controller, unpublish)
	w.report("n1", busy)
	require.Contains(t, w.rejected(InUse, controller, unpublish).GetRejection().GetMessage(), "the mount on /x is in use")
	w.rejected(Busy, "node/n1", w.stage(1, "n1", 2))

	w.ok(controller, publish(1, "n1"))
	require.False(t, w.volume(1).Publication("n1").Ending)
	require.Equal(t, epoch, w.volume(1).Publication("n1").Epoch)
	w.ok("node/n1", w.stage(1, "n1", 2))

	w.ok(controller, unpublish)
	w.report("n1", busy)
	w.report("n1", unstaged(1, epoch, 3))
	w.ok(controller, unpublish)
	require.Empty(t, w.volume(1).Publications())
}

// Scenario 3: only the replication link fails; the outdated peer is never promoted, also
// when it boots first.
func TestS8_AnOutdatedReplicaIsPromotedByNobody(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	ask1(w)
	w.reboot("n2")
	w.attach(1, "n2", 2)
	w.setUnreachable("n1", true)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: consistent, UUID: 7, Connection: standAlone})
	require.False(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))))
	w.rejected(Precondition, controller, publish(1, "n2"))
	w.reportCurrent(1, "n1", ReplicaObservation{Unconfigured: true})
	require.Contains(t, w.s.ReplicationCondition(w.volume(1)).Message, "n1 is not attached")
}

// S1: later entries than a restored log has may have outdated a replica: it promotes none
// by what it recorded.
func TestS1_ARestoreResetsEveryReplicaObservation(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	restored1(w)
	require.Empty(t, w.s.PrimaryHost(w.volume(1)))
	for _, node := range []string{"n1", "n2"} {
		w.ok(admin, &fsmpb.AdoptNode{NodeId: node, HostId: "host-" + node, Incarnation: 2})
	}
	require.Equal(t, refused, w.ok("node/n1", w.outdate(1, "n1", disconnectedPrimary(7))).GetVerdict())
	w.rejected(Precondition, "node/n1", w.setPrimary(1, "n1", disconnectedPrimary(7)))
	primary := inSyncObservation(7)
	primary.Primary = true
	w.reportCurrent(1, "n2", inSyncObservation(7))
	w.reportCurrent(1, "n1", primary)
	require.Zero(t, w.replicaSync(1, "n2").InSyncUUID, "it is primary, granted or not")
	w.ok("node/n1", w.setPrimary(1, "n1", primary))
	require.Equal(t, HostID("host-n1"), w.s.PrimaryHost(w.volume(1)))
}

// S17, S105: nothing is pending on a lost host, and the other replica continues if it has
// every write.
func TestS17_TheRemainingReplicaIsPromotedIfItHasEveryWrite(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	publicationRevoked1(w)
	w.twice(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
	v := w.volume(1)
	require.Len(t, v.Replicas, 1)
	require.Len(t, v.ActiveReplicas(), 1)
	require.Empty(t, v.Teardowns)
	require.Contains(t, w.s.ReplicationCondition(v).Message, "1 of 2 replicas")
	w.ok(controller, publish(1, "n2"))
	w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, connecting)))
	require.Equal(t, peerOutdated, w.ok("node/n2", w.outdate(1, "n2", disconnectedObservation(7, connecting))).GetVerdict(), "its kernel asks nevertheless")
	won := disconnectedObservation(8, connecting)
	won.Primary = true
	w.reportCurrent(1, "n2", won)
	require.EqualValues(t, 8, w.replicaSync(1, "n2").SoloPrimaryUUID.Value)
}
