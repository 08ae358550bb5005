package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func forcePrimary(node string, dead bool) *fsmpb.ForcePrimary {
	return &fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: node, Reason: "the rack burnt", PeerDead: dead}
}

// S11: a takeover with protocol A would lose writes: it takes an operator's decision.
func TestS11_ProtocolATakeoverNeedsAForcedDecision(t *testing.T) {
	w := newReplicated(t, protocolA)
	w.primary(1, "n1", 7)
	w.setUnreachable("n1", true)
	w.reportCurrent(1, "n2", disconnectedObservation(7, connecting))
	w.rejected(Unreachable, controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.rejected(InUse, controller, publish(1, "n2"))
	given := w.volume(1).Replication.Generation

	w.rejected(Precondition, admin, forcePrimary("n2", false))
	w.twice(admin, forcePrimary("n2", true))
	require.Equal(t, given, w.volume(1).Replication.Forced.GivenUpGeneration, "the log says what was given up")
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.reportCurrent(1, "n2", disconnectedObservation(7, standAlone))
	require.True(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(1))))
	w.ok(controller, publish(1, "n2"))
	out := w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, standAlone)))
	require.True(t, out.GetForce())
	require.True(t, w.replicaSync(1, "n1").Outdated)
}

// S11: after a clean demotion nothing is missing, and no decision is needed.
func TestS11_WithProtocolAACleanlyDemotedPeerHasEverything(t *testing.T) {
	w := newReplicated(t, protocolA)
	w.primary(1, "n1", 7)
	epoch := w.volume(1).Publication("n1").Epoch
	w.reportCurrent(1, "n1", inSyncObservation(7))
	w.unstaged(1, "n1", epoch)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.ok(controller, publish(1, "n2"))
	w.rejected(Precondition, "node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, connecting)))
	w.reportCurrent(1, "n1", inSyncObservation(7))
	w.reportCurrent(1, "n2", inSyncObservation(7))
	w.setUnreachable("n1", true)
	w.ok("node/n2", w.setPrimary(1, "n2", disconnectedObservation(7, connecting)))
}

// S8: a decision to force is used once, and only while the peer is stopped.
func TestS8_ADecisionToForceIsCarriedOutByTheNextGrant(t *testing.T) {
	stale := ReplicaObservation{Disk: consistent, UUID: 7, Connection: standAlone}
	set := func(t *testing.T) *world {
		w := newReplicated(t, protocolC)
		w.primary(1, "n1", 7)
		ask1(w)
		publicationRevoked1(w)
		w.reboot("n2")
		w.attach(1, "n2", 2)
		return w
	}
	t.Run("the stale side goes on, and the log says so", func(t *testing.T) {
		w := set(t)
		w.twice(admin, forcePrimary("n2", true))
		require.True(t, w.replicaSync(1, "n2").Outdated, "nothing changes before it is used")
		w.ok(controller, publish(1, "n2"))
		desired, _ := w.s.DesiredVolume("n2", VolumeID(volumeID(1)))
		require.True(t, desired.Replication.Force)
		require.True(t, desired.Replication.Primary)
		for range 2 { // its host may have to request it again
			require.True(t, w.ok("node/n2", w.setPrimary(1, "n2", stale)).GetForce())
			require.False(t, w.replicaSync(1, "n2").Outdated)
			require.True(t, w.replicaSync(1, "n1").Outdated)
			require.NotNil(t, w.volume(1).Replication.Forced)
		}
		require.Equal(t, peerOutdated, w.ok("node/n2", w.outdate(1, "n2", stale)).GetVerdict())
		won := disconnectedObservation(9, standAlone)
		won.Primary = true
		w.reportCurrent(1, "n2", won)
		require.Nil(t, w.volume(1).Replication.Forced, "it was carried out")
		// Scenario 2d: the other host, whose kernel still calls its disk UpToDate, boots
		// alone.
		w.setUnreachable("n1", false)
		w.reboot("n1")
		w.attach(1, "n1", 2)
		w.unstaged(1, "n1", w.volume(1).Teardowns[0].Epoch)
		require.NotEmpty(t, w.volume(1).Teardowns, "attached, it has not said that it is secondary")
		w.reportCurrent(1, "n1", disconnectedObservation(8, connecting))
		w.unstaged(1, "n1", w.volume(1).Teardowns[0].Epoch)
		w.reportCurrent(1, "n2", disconnectedObservation(9, standAlone))
		w.unstaged(1, "n2", w.volume(1).Publication("n2").Epoch)
		w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
		w.rejected(Precondition, controller, publish(1, "n1"))
	})
	t.Run("a half synchronised disk never goes on", func(t *testing.T) {
		w := set(t)
		w.ok(admin, forcePrimary("n2", true))
		w.ok(controller, publish(1, "n2"))
		w.rejected(Precondition, "node/n2", w.setPrimary(1, "n2", ReplicaObservation{Disk: inconsistent, UUID: 7, Connection: standAlone}))
		w.rejected(Precondition, "node/n2", w.setPrimary(1, "n2", ReplicaObservation{Disk: diskless, Connection: standAlone}))
	})
	t.Run("a peer that came back is not dead", func(t *testing.T) {
		w := set(t)
		w.ok(admin, forcePrimary("n2", true))
		w.ok(controller, publish(1, "n2"))
		w.setUnreachable("n1", false)
		w.rejected(Busy, "node/n2", w.setPrimary(1, "n2", stale))
	})
	t.Run("a peer that can be asked is not attested dead", func(t *testing.T) {
		w := newReplicated(t, protocolC)
		w.primary(1, "n1", 7)
		w.rejected(Precondition, admin, forcePrimary("n2", true))
	})
	t.Run("a peer that ended its use needs no attest", func(t *testing.T) {
		w := newReplicated(t, protocolC)
		w.primary(1, "n1", 7)
		w.release(1, "n1", 8)
		w.twice(admin, forcePrimary("n2", false))
	})
	t.Run("only for operators, of volumes and nodes that are there", func(t *testing.T) {
		w := newReplicated(t, protocolC)
		w.rejected(Forbidden, controller, forcePrimary("n1", true))
		w.rejected(NotFound, admin, forcePrimary("n9", true))
		w.ok("node/n3", replicating("n3"))
		w.rejected(Precondition, admin, forcePrimary("n3", true))
		c := forcePrimary("n1", true)
		c.VolumeId = volumeID(9)
		w.rejected(NotFound, admin, c)
	})
}

// S8: the decision gave up what had been written until it was made. Once its peer went on, what it
// acknowledges since is not given up.
func TestS8_ADecisionToForceEndsWhenThePeerGoesOnInstead(t *testing.T) {
	set := func(t *testing.T, level uint32) *world {
		w := newReplicatedAt(t, level, protocolC)
		w.primary(1, "n1", 7)
		w.release(1, "n1", 8)
		w.twice(admin, forcePrimary("n2", false))
		w.reboot("n2")
		return w
	}
	alone := disconnectedObservation(8, connecting)
	t.Run("it is granted to the peer", func(t *testing.T) {
		w := set(t, MaxFeatureLevel)
		w.ok(controller, publish(1, "n1"))
		for range 2 {
			w.ok("node/n1", w.setPrimary(1, "n1", alone))
			require.Nil(t, w.volume(1).Replication.Forced)
		}
		require.True(t, w.replicaSync(1, "n2").Outdated)
		require.Equal(t, peerOutdated, w.ok("node/n1", w.outdate(1, "n1", alone)).GetVerdict())
		w.release(1, "n1", 9)
		w.attach(1, "n2", 2)
		w.rejected(Precondition, controller, publish(1, "n2"))
		w.ok(admin, forcePrimary("n2", false))
		w.ok(controller, publish(1, "n2"))
		require.True(t, w.ok("node/n2", w.setPrimary(1, "n2", ReplicaObservation{Disk: consistent, UUID: 7, Connection: standAlone})).GetForce(), "a new decision counts")
	})
	t.Run("the log of level 1 says what it said", func(t *testing.T) {
		w := set(t, 1)
		w.ok(controller, publish(1, "n1"))
		w.ok("node/n1", w.setPrimary(1, "n1", alone))
		require.NotNil(t, w.volume(1).Replication.Forced)
	})
}

// S8: nor is what the peer writes that was attested dead, and was not.
func TestS8_ADecisionToForceEndsWhenThePrimaryOutdatesThePeerInstead(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	w.setUnreachable("n1", true)
	w.twice(admin, forcePrimary("n2", true))
	w.setUnreachable("n1", false)
	going := disconnectedObservation(8, connecting)
	going.Primary = true
	require.Equal(t, peerOutdated, w.ok("node/n1", w.outdate(1, "n1", going)).GetVerdict())
	require.Nil(t, w.volume(1).Replication.Forced)
	w.release(1, "n1", 8)
	w.rejected(Precondition, controller, publish(1, "n2"))
}
