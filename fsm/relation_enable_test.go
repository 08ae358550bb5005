package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// ADD-REPL-Enable-01, -04, -07: enabled from either site with the same parameters, refused with others.
func TestEnableReplicationIsRepeatedFromEitherSite(t *testing.T) {
	w := newTwoSites(t, 1)
	w.rejectedAt("B", Precondition, enable(sourceOf(1), "A")) // it is at home at A
	w.rejectedAt("A", Invalid, enable(sourceOf(1), "A"))
	w.rejectedAt("A", Invalid, enable(sourceOf(1), ""))
	w.rejected(Invalid, controller, enable(sourceOf(1), "B"))
	w.rejectedAt("A", Precondition, enable(sourceOf(1), "C"))
	first := enable(sourceOf(1), "B")
	first.ReplicationId, first.Protocol = "vr-1", protocolA
	w.rejectedAt("A", Precondition, first) // it is connected by protocol C
	first.Protocol = protocolC
	w.okAt("A", first)
	require.Equal(t, []Site{"A"}, w.relation(1).Claims)
	again := enable(sourceOf(1), "A")
	again.ReplicationId = "vr-1"
	w.okAt("B", again)
	require.Equal(t, []Site{"A", "B"}, w.relation(1).Claims)
	w.isPrimary(1, "A")
	other := enable(sourceOf(1), "A")
	other.ReplicationId = "vr-2"
	w.rejectedAt("B", NotFound, other)
	for _, change := range []func(*fsmpb.EnableReplication){
		func(c *fsmpb.EnableReplication) { c.Protocol = protocolA },
		func(c *fsmpb.EnableReplication) { c.DiscardUnkept = true },
		func(c *fsmpb.EnableReplication) { c.Separately = true },
		func(c *fsmpb.EnableReplication) { c.FreezeIsolated = true },
		func(c *fsmpb.EnableReplication) { c.PeerSite = "C" },
	} {
		c := enable(sourceOf(1), "B")
		change(c)
		w.rejectedAt("A", Precondition, c)
	}
}

// S54: a volume with both replicas at one site is not enabled; one with one replica is given another one at the peer.
func TestS54_EnableGivesTheOtherSiteOneReplica(t *testing.T) {
	w := newTwoSites(t, 0)
	w.at("A", func(actor string) { w.readyReplicatedBy(actor, 1, createReplicated(1, protocolC)) })
	w.rejectedAt("A", Precondition, enable(sourceOf(1), "B"))
	r := w.volume(1).Replicas[1]
	w.ok(controller, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: string(r.Node), HostId: string(r.Host)})
	w.rejectedAt("A", Busy, enable(sourceOf(1), "B"))
	w.report(string(r.Node), volumeObservation(1, &fsmpb.Observation_DeviceGone{DeviceGone: &fsmpb.DeviceGone{}}))
	c := enable(sourceOf(1), "B")
	c.PeerNode = "n1"
	w.rejectedAt("A", Invalid, c)
	c.PeerNode = "n4"
	w.okAt("A", c)
	require.Equal(t, "n4", w.node(1, "B"))
	require.True(t, w.volume(1).RelationMember.Added)
	w.rejectedAt("B", Busy, promote(sourceOf(1)))
	w.rejected(Precondition, controller, &fsmpb.RemoveReplica{VolumeId: volumeID(1), NodeId: w.node(1, "A"), HostId: "host-" + w.node(1, "A")})
	done, _, rej := w.s.EnableHolds(sourceOf(1))
	require.Nil(t, rej)
	require.False(t, done)
	w.attach(1, "n4", 1)
	w.report("n4", volumeObservation(1, &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: gib}}))
	// Never whole: no force promotes it, and it is no reason to keep anything.
	w.siteUnreachable("A", true)
	w.syncing(1, "B")
	w.interrupted(1, "B")
	w.rejectedAt("B", NeedsForce, promote(sourceOf(1)))
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
	w.siteUnreachable("A", false)
	w.reportCurrent(1, w.node(1, "A"), inSyncObservation(7))
	w.reportCurrent(1, "n4", inSyncObservation(7))
	require.True(t, w.replicaSync(1, "n4").Synced)
	w.okAt("A", disable(sourceOf(1)))
	require.Equal(t, ReplicaLeaving, w.volume(1).Replica("host-n4").State)
	require.Empty(t, w.volume(1).Sites)
}

// S38, S53: all members of a group are enabled by one entry, or none.
func TestS53_AGroupIsEnabledAsOne(t *testing.T) {
	w := newTwoSites(t, 1)
	w.readyAt("A", 2, create(2))
	w.readyAt("A", 3, create(3))
	w.okAt("A", createVolumeGroup(1, 1, 2, 3))
	w.at("A", func(actor string) { w.ok(actor, publish(3, string(w.volume(3).Replicas[0].Node))) })
	w.rejectedAt("A", Precondition, enable(groupSource(1), "B"))
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(3)})
	w.okAt("A", enable(groupSource(1), "B"))
	w.rejectedAt("A", Precondition, enable(sourceOf(1), "B"))
	require.NotNil(t, w.volume(2).converting())
	require.NotNil(t, w.volume(3).converting())
	require.NotEqual(t, w.volume(2).Operations()[0].ID, w.volume(3).Operations()[0].ID)
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolumeGroup{VolumeGroupId: volumeGroupID(1)})
	w.rejectedAt("A", Precondition, &fsmpb.DeleteVolume{VolumeId: volumeID(1)})
	w.okAt("A", disable(groupSource(1)))
	require.Nil(t, w.volume(2).Replication)
	require.NotNil(t, w.volume(1).Replication)
}

// S53: what joins a replicated group is replicated by the same entry, and what leaves it is not any more.
func TestS53_MembersJoinAndLeaveAReplicatedGroup(t *testing.T) {
	w := newTwoSites(t, 2)
	w.readyAt("A", 3, create(3))
	w.okAt("A", createVolumeGroup(1, 1))
	w.okAt("A", enable(groupSource(1), "B"))
	w.at("A", func(actor string) { w.ok(actor, publish(3, string(w.volume(3).Replicas[0].Node))) })
	w.rejectedAt("A", Invalid, modifyVolumeGroup(1, 1, 2, 3))
	require.Equal(t, volumeIDs(1), w.members(1))
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(3)})
	w.okAt("A", modifyVolumeGroup(1, 1, 2))
	w.ok(controller, modifyVolumeGroup(1, 1, 2, 3)) // of nobody's site
	require.NotNil(t, w.volume(3).converting())
	w.rejectedAt("B", Precondition, modifyVolumeGroup(1, 1))
	w.okAt("B", modifyVolumeGroup(1, 1, 2, 3))
	w.okAt("A", modifyVolumeGroup(1, 1))
	require.Nil(t, w.volume(2).RelationMember)
	require.Equal(t, Site("A"), w.volume(2).Home)
	require.Nil(t, w.volume(3).Replication)
	w.okAt("A", demote(groupSource(1)))
	w.rejected(Precondition, controller, modifyVolumeGroup(1, 1, 2))
	w.rejectedAt("A", Precondition, modifyVolumeGroup(1, 1, 2))
}

// S72: none of the commands is known at level 1.
func TestS72_ReplicationNeedsLevel2(t *testing.T) {
	w := newReplicatedAt(t, Level1, protocolC)
	for _, c := range []func(*world){
		func(w *world) { w.rejected(Unsupported, controller, enable(sourceOf(1), "B")) },
		func(w *world) { w.rejected(Unsupported, controller, disable(sourceOf(1))) },
		func(w *world) { w.rejected(Unsupported, controller, promote(sourceOf(1))) },
		func(w *world) { w.rejected(Unsupported, controller, demote(sourceOf(1))) },
		func(w *world) { w.rejected(Unsupported, controller, resync(sourceOf(1), true)) },
		func(w *world) { w.rejected(Unsupported, controller, &fsmpb.CancelConversion{VolumeId: volumeID(1)}) },
	} {
		c(w)
	}
}
