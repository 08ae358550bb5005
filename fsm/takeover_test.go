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

// revoked1 is the first half of a takeover from n1: volume 1 is unpublished while n1
// cannot be asked.
func revoked1(w *world) {
	w.away("n1", true)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
}

// takeover1 is the second half.
func takeover1(w *world) {
	w.sees(1, "n2", apart(7, alone))
	require.True(w.t, w.s.Severed(VolumeID(volumeID(1))))
	w.ok(controller, publish(1, "n2"))
	w.ok("node/n2", w.setPrimary(1, "n2", apart(7, alone)))
}

// S10: the log's word follows what both hosts see, also after a reconnect without resync.
func TestS10_AReplicaIsUpToDateAgainWhenBothHostsSeeIt(t *testing.T) {
	primary := together(7)
	primary.Primary = true
	for name, tc := range map[string]struct {
		n1, n2 ReplicaSeen
		want   bool
	}{
		"both see both whole":               {primary, together(7), true},
		"two contents":                      {primary, together(8), false},
		"the primary still synchronises it": {ReplicaSeen{Primary: true, Disk: upToDate, PeerDisk: inconsistent, Connection: syncSource, UUID: 7}, together(7), false},
		"its own disk is not whole yet":     {primary, ReplicaSeen{Disk: inconsistent, PeerDisk: upToDate, Connection: syncTarget, UUID: 7}, false},
		"the primary does not see it":       {frozenAlone(7), together(7), false},
		"it does not see the primary":       {primary, apart(7, connecting), false},
		"contents without a generation":     {ReplicaSeen{Primary: true, Disk: upToDate, PeerDisk: upToDate, Connection: connected}, together(0), false},
		"while they are compared":           {ReplicaSeen{Primary: true, Disk: upToDate, PeerDisk: upToDate, Connection: fsmpb.ConnectionState_CONNECTION_STATE_VERIFYING, UUID: 7}, together(7), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			ask1(w)
			w.sees(1, "n2", tc.n2)
			require.False(t, w.leg(1, "n2").UpToDate, "not by its own word")
			w.sees(1, "n1", tc.n1)
			require.Equal(t, tc.want, w.leg(1, "n2").UpToDate)
			require.Equal(t, !tc.want, w.leg(1, "n2").Outdated)
		})
	}
}

// S8: the takeover in four steps; from a host that lost its power and its links, or that
// is cut from the controllers only.
func TestS8_ATakeoverHasFourSteps(t *testing.T) {
	for name, before := range map[string]ReplicaSeen{
		"the old primary is gone":                      apart(7, connecting),
		"the old primary is cut from controllers only": together(7),
	} {
		t.Run(name, func(t *testing.T) {
			w := newReplicated(t, protocolC)
			w.primary(1, "n1", 7)
			id := VolumeID(volumeID(1))
			w.sees(1, "n2", before)
			w.away("n1", true)
			wish, _ := w.s.Wish("n2", id)
			require.True(t, wish.Replication.Connect)

			// (1) Revoke: its questions are refused from here.
			w.twice(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: "n1"})
			require.Equal(t, []Teardown{{Node: "n1", Host: "host-n1", Epoch: w.volume(1).Teardowns[0].Epoch}}, w.volume(1).Teardowns)
			require.Equal(t, refused, w.ok("node/n1", w.outdate(1, "n1", frozenAlone(7))).GetVerdict())
			require.False(t, w.s.Severed(id))

			// (2) The other cuts the connection.
			wish, _ = w.s.Wish("n2", id)
			require.False(t, wish.Replication.Connect)
			w.sees(1, "n2", before)
			require.False(t, w.s.Severed(id), "it waits for its peer, which may come back by itself")
			w.sees(1, "n2", apart(7, alone))
			require.True(t, w.s.Severed(id))

			// (3) Grant and outdate in one entry, (4) answer when it is primary.
			w.twice(controller, publish(1, "n2"))
			w.no(Busy, "node/n2", w.setPrimary(1, "n2", before))
			out := w.ok("node/n2", w.setPrimary(1, "n2", apart(7, alone)))
			r := w.volume(1).Replication
			require.Equal(t, []uint64{out.GetIndex(), out.GetIndex(), out.GetIndex()}, []uint64{r.Generation, r.Granted, r.Primary.Index})
			require.True(t, w.leg(1, "n1").Outdated)
			require.False(t, w.s.PrimaryDone(w.volume(1), "n2"))
			require.Equal(t, peerOutdated, w.ok("node/n2", w.outdate(1, "n2", apart(7, alone))).GetVerdict())
			won := apart(9, alone)
			won.Primary = true
			w.sees(1, "n2", won)
			require.True(t, w.s.PrimaryDone(w.volume(1), "n2"))
			require.Equal(t, selfOutdated, w.ok("node/n1", w.outdate(1, "n1", frozenAlone(7))).GetVerdict())
			require.True(t, w.s.Severed(id))
		})
	}
}

// S9: the loser is told to go, and the two stay apart until it did.
func TestS9_TheLoserComesBackOnlyAfterItsTeardown(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publication("n1").Epoch
	revoked1(w)
	takeover1(w)
	w.away("n1", false)
	loser, _ := w.s.Wish("n1", VolumeID(volumeID(1)))
	winner, _ := w.s.Wish("n2", VolumeID(volumeID(1)))
	require.True(t, loser.Replication.Outdated)
	require.Equal(t, epoch, loser.Teardown.Epoch)
	require.False(t, loser.Replication.Connect)
	require.False(t, winner.Replication.Connect, "no split brain: the loser is not met before it was torn down")
	w.no(InUse, controller, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: "n2", HostId: "host-n2"})

	w.unstaged(1, "n1", epoch)
	require.NotEmpty(t, w.volume(1).Teardowns, "it said that it is primary, and not yet that it is no more")
	w.sees(1, "n1", ReplicaSeen{Down: true})
	w.unstaged(1, "n1", epoch)
	require.Empty(t, w.volume(1).Teardowns)
	require.Nil(t, w.volume(1).Operation)
	loser, _ = w.s.Wish("n1", VolumeID(volumeID(1)))
	winner, _ = w.s.Wish("n2", VolumeID(volumeID(1)))
	require.True(t, loser.Replication.Connect && winner.Replication.Connect)
	require.True(t, loser.Replication.Outdated, "it connects by discarding its own")
	w.no(InUse, controller, publish(1, "n1"))

	w.attach(1, "n1", 2)
	w.sees(1, "n1", together(9))
	won := together(9)
	won.Primary = true
	w.sees(1, "n2", won)
	require.True(t, w.leg(1, "n1").UpToDate)
}

// S8: a host that can be asked ends its use first; nobody is promoted beside it.
func TestS8_AHostThatCanBeAskedEndsItsUseFirst(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publication("n1").Epoch
	w.twice(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	require.NotEmpty(t, w.volume(1).Teardowns, "it is primary, staged or not")
	require.True(t, w.s.Severed(VolumeID(volumeID(1))), "nobody waits for a host that can be asked")
	w.twice(controller, publish(1, "n2"))
	wish, _ := w.s.Wish("n2", VolumeID(volumeID(1)))
	require.True(t, wish.Replication.Connect)
	w.no(Busy, "node/n2", w.setPrimary(1, "n2", together(7)))
	w.no(Busy, "node/n2", w.setPrimary(1, "n2", apart(7, alone)))
	w.sees(1, "n1", together(7))
	w.sees(1, "n2", together(7))
	require.Zero(t, w.leg(1, "n2").Settled, "its end is still owed")
	w.unstaged(1, "n1", epoch)
	require.Empty(t, w.volume(1).Teardowns)
	w.ok("node/n2", w.setPrimary(1, "n2", together(7)))
	require.Equal(t, HostID("host-n2"), w.s.Holder(w.volume(1)))
}

// What was seen before a revoked host came and went again does not let another go on.
func TestS8_WhatWasSeenBeforeTheOldPrimaryCameBackDoesNotCount(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	revoked1(w)
	w.sees(1, "n2", apart(7, alone))
	w.ok(controller, publish(1, "n2"))
	early := w.setPrimary(1, "n2", apart(7, alone))
	w.away("n1", false)
	w.no(Busy, "node/n2", early)
	w.away("n1", true)
	require.False(t, w.s.Severed(VolumeID(volumeID(1))))
	w.no(Busy, "node/n2", early)
	w.ok("node/n2", w.setPrimary(1, "n2", apart(7, alone)))
}

// S31: staged and reachable it stays published, and its host is asked to take it down;
// unreachable it is the takeover.
func TestS31_AStagedReplicatedVolumeIsUnpublishedOnlyFromAHostThatIsAway(t *testing.T) {
	for _, level := range []uint32{Level1, Level2} {
		w := newReplicated(t, protocolC)
		w.s.cluster.FeatureLevel = level
		w.primary(1, "n1", 7)
		w.ok("node/n1", w.stage(1, "n1", 1))
		if level == Level2 {
			w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		}
		w.no(InUse, controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		require.Equal(t, level == Level2, w.volume(1).Publication("n1").Ending)
		w.away("n1", true)
		out := w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		require.NotZero(t, out.GetOperationId())
		require.Equal(t, OpTeardown, w.volume(1).Operation.Kind)
		require.False(t, w.s.Severed(VolumeID(volumeID(1))))
	}
}

// S31: what uses it is named; nothing more is brought up under a publication that is being
// ended; who publishes it again has the last word; and it ends when its host took it down.
func TestS31_AReplicatedVolumeIsUnpublishedWhenItsHostTookItDown(t *testing.T) {
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
	require.Contains(t, w.no(InUse, controller, unpublish).GetRejection().GetMessage(), "the mount on /x is in use")
	w.no(Busy, "node/n1", w.stage(1, "n1", 2))

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

// Scenario 3: the link alone is cut; the peer that was outdated is promoted by nobody,
// also when it boots first.
func TestS8_AnOutdatedReplicaIsPromotedByNobody(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	ask1(w)
	w.reboot("n2")
	w.attach(1, "n2", 2)
	w.away("n1", true)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.sees(1, "n2", ReplicaSeen{Disk: consistent, UUID: 7, Connection: alone})
	require.False(t, w.s.Severed(VolumeID(volumeID(1))))
	w.no(Precondition, controller, publish(1, "n2"))
	w.sees(1, "n1", ReplicaSeen{Down: true})
	require.Contains(t, w.s.ReplicationCondition(w.volume(1)).Message, "n1 is not attached")
}

// S1: a restored log may have been overtaken: it promotes nothing by its old word.
func TestS1_AfterARestoreNoReplicaIsUpToDateByTheOldWord(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	restored1(w)
	require.Empty(t, w.s.Holder(w.volume(1)))
	for _, node := range []string{"n1", "n2"} {
		w.ok(admin, &fsmpb.AdoptNode{NodeId: node, HostId: "host-" + node, Incarnation: 2})
	}
	require.Equal(t, refused, w.ok("node/n1", w.outdate(1, "n1", frozenAlone(7))).GetVerdict())
	w.no(Precondition, "node/n1", w.setPrimary(1, "n1", frozenAlone(7)))
	primary := together(7)
	primary.Primary = true
	w.sees(1, "n2", together(7))
	w.sees(1, "n1", primary)
	require.Zero(t, w.leg(1, "n2").Settled, "it is primary, granted or not")
	w.ok("node/n1", w.setPrimary(1, "n1", primary))
	require.Equal(t, HostID("host-n1"), w.s.Holder(w.volume(1)))
}

// S17, S105: a lost host owes nothing, and what is left may go on if it has everything.
func TestS17_WhatIsLeftOfALostHostGoesOnIfItHasEverything(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	revoked1(w)
	w.twice(admin, &fsmpb.LoseNode{NodeId: "n1", HostId: "host-n1", Reason: "burnt"})
	v := w.volume(1)
	require.Len(t, v.Replicas, 1)
	require.Len(t, v.Replication.Legs, 1)
	require.Empty(t, v.Teardowns)
	require.Contains(t, w.s.ReplicationCondition(v).Message, "1 of 2 replicas")
	w.ok(controller, publish(1, "n2"))
	w.ok("node/n2", w.setPrimary(1, "n2", apart(7, connecting)))
	require.Equal(t, peerOutdated, w.ok("node/n2", w.outdate(1, "n2", apart(7, connecting))).GetVerdict(), "its kernel asks nevertheless")
	won := apart(8, connecting)
	won.Primary = true
	w.sees(1, "n2", won)
	require.EqualValues(t, 8, w.leg(1, "n2").Alone.UUID)
}
