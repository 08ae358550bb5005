package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// newLeftBehind is newRelated where A's primary went on without B, and cannot be asked.
func newLeftBehind(t testing.TB) *related {
	w := newRelated(t)
	w.used(1, "A")
	w.alone(1, "A")
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
	w.siteUnreachable("A", true)
	return w
}

// S44, S45, S48, S56, ADD-REPL-Promote-05: what force gives up is recorded; the other site stays apart until it is told to
// discard what it has.
func TestS44_ForceIsRecordedAndTheOtherSiteStaysApart(t *testing.T) {
	w := newLeftBehind(t)
	since := w.volume(1).RelationMember.InSyncAt
	require.False(t, since.IsZero())
	generation := w.volume(1).Replication.Generation
	w.rejectedAt("B", NeedsForce, promote(sourceOf(1)))
	w.at("B", func(actor string) {
		out := w.ok(actor, promoteByForce(sourceOf(1)))
		require.Len(t, out.GetGivenUp(), 1)
		require.Equal(t, generation, out.GetGivenUp()[0].GetGeneration())
		require.Equal(t, since.UnixNano(), out.GetGivenUp()[0].GetSinceUnixNano())
	})
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.isPrimary(1, "B")
	require.True(t, w.relation(1).ousted("A").Forced)
	require.True(t, w.replicaSync(1, w.node(1, "A")).Outdated)
	require.True(t, w.desired(1, "A").Apart)
	require.False(t, w.desired(1, "A").Connect)
	require.False(t, w.desired(1, "B").Connect)
	status, rej := w.s.ReplicationStatus(sourceOf(1), "")
	require.Nil(t, rej)
	require.Equal(t, ReplicationError, status.Health, "S45")
	w.severed(1, "B")
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	require.True(t, w.holds(1, "B"))
	w.siteUnreachable("A", false)
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("A", resync(sourceOf(1), false))
	require.True(t, w.desired(1, "A").Apart, "S48: only force ends it")
	_, waits, rej := w.s.ResyncReady(sourceOf(1), "A")
	require.Nil(t, rej)
	require.Contains(t, waits, "given up by force")
	w.okAt("A", resync(sourceOf(1), true))
	require.False(t, w.desired(1, "A").Apart)
	require.False(t, w.desired(1, "A").DiscardUnkept)
}

// S44: force is no answer to a site that can be asked, and it ends what a group has as a whole.
func TestS44_ForceIsConsentOnlyWhileNobodyCanBeAsked(t *testing.T) {
	w := newLeftBehind(t)
	w.siteUnreachable("A", false)
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
	w.isPrimary(1, "A")
}

// S43: what is not attached is not known: it is neither promoted nor rolled back.
func TestS43_ForceWaitsForAReplicaThatIsNotAttached(t *testing.T) {
	w := newLeftBehind(t)
	w.kept(1, "B", 1, true)
	w.reboot(w.node(1, "B"))
	w.rejectedAt("B", Busy, promote(sourceOf(1)))
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
	w.attach(1, w.node(1, "B"), 2)
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
	w.okAt("B", promoteByForce(sourceOf(1)))
	require.Nil(t, w.volume(1).Replication.Revert)
}

// newHalfCopied is newLeftBehind where B kept what it had and is a part of the way to what A has, when A is lost.
func newHalfCopied(t testing.TB) *related {
	w := newRelated(t)
	w.used(1, "A")
	w.alone(1, "A")
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	require.False(t, w.desired(1, "B").Connect, "S50: it is kept first")
	w.kept(1, "B", 1, true)
	require.True(t, w.desired(1, "B").Connect)
	w.syncing(1, "B")
	w.siteUnreachable("A", true)
	return w
}

func (w *related) interrupted(n int, site Site) {
	w.reportCurrent(n, w.node(n, site), ReplicaObservation{Disk: inconsistent, Connection: connecting, UUID: 6})
}

// S43, S50: a replica that has a part of the content goes back to what it kept, and its peer is copied wholly.
func TestS43_APartOfTheContentGoesBackToWhatWasKept(t *testing.T) {
	w := newHalfCopied(t)
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1))) // it is being copied still
	w.interrupted(1, "B")
	w.rejectedAt("B", NeedsForce, promote(sourceOf(1)))
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.isPrimary(1, "B")
	node := w.node(1, "B")
	require.Equal(t, SnapshotID(snapshotID(1)), w.desired(1, "B").RevertTo)
	require.NotZero(t, w.replicaSync(1, w.node(1, "A")).DiskFailed)
	require.False(t, w.holds(1, "B"))
	w.rejectedAt("B", Busy, publish(1, node))
	w.rejected(InUse, admin, &fsmpb.DeleteSnapshot{SnapshotId: snapshotID(1)})
	w.fact(1, node, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaReverted{ReplicaReverted: &fsmpb.ReplicaReverted{SnapshotId: snapshotID(1)}}})
	d := w.desired(1, "B")
	require.Equal(t, SnapshotID(""), d.RevertTo)
	require.True(t, d.Reverted)
	w.attach(1, node, 2)
	blank := ReplicaObservation{Disk: inconsistent, Connection: standAlone}
	w.reportCurrent(1, node, blank)
	w.siteUnreachable("A", false)
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("A", resync(sourceOf(1), true))
	require.False(t, w.desired(1, "B").Connect, "not before it is primary")
	require.False(t, w.desired(1, "A").Connect)
	w.tornDown(1, "A")
	w.reportCurrent(1, node, blank)
	w.at("B", func(actor string) { w.ok(actor, publish(1, node)) })
	out := w.ok("node/"+node, w.setPrimary(1, node, blank))
	require.True(t, out.GetForce())
	require.False(t, w.desired(1, "B").Connect, "not before it is primary")
	w.reportCurrent(1, node, blank)
	require.Equal(t, peerOutdated, w.ok("node/"+node, w.outdate(1, node, blank)).GetVerdict())
	won := disconnectedObservation(9, standAlone)
	won.Primary = true
	w.reportCurrent(1, node, won)
	require.Nil(t, w.volume(1).Replication.Revert)
	require.True(t, w.desired(1, "A").KeepDue)
	require.False(t, w.desired(1, "B").Connect, "not before what A has is kept")
}

// S43: neither a part of the content nor a copy of a part is promoted.
func TestS43_APartOfTheContentIsNotPromoted(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	w.alone(1, "A")
	node := w.node(1, "B")
	w.reportCurrent(1, node, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	c := w.keep(1, node, 1, true)
	c.Trouble = "its pool copies blocks"
	w.twice("node/"+node, c)
	w.syncing(1, "B")
	w.interrupted(1, "B")
	w.alone(1, "A") // once more, with half of the content at B
	require.False(t, w.desired(1, "B").KeepDue, "half of the content is not worth to be kept")
	w.kept(1, "B", 2, false)
	w.siteUnreachable("A", true)
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
}

// S43, S71: a lost or removed host takes what was decided about it along.
func TestS43_ARevertEndsWithItsHost(t *testing.T) {
	w := newHalfCopied(t)
	w.interrupted(1, "B")
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.lose(1, "B")
	require.False(t, w.volume(1).isReverting())
	w.siteUnreachable("A", false)
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("A", resync(sourceOf(1), true))
	w.admin(&fsmpb.ForcePrimary{VolumeId: volumeID(1), NodeId: w.node(1, "A"), Reason: "B burnt", PeerDead: true})
}

// S48: a replica that takes the place of one that was given up is not apart.
func TestS48_WhatIsApartGoesWithItsHost(t *testing.T) {
	w := newLeftBehind(t)
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.severed(1, "B")
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	node := w.node(1, "B")
	w.at("B", func(actor string) { w.ok(actor, publish(1, node)) })
	w.ok("node/"+node, w.setPrimary(1, node, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7}))
	w.lose(1, "A")
	w.siteUnreachable2("A", false)
	w.ok(controller, &fsmpb.AddReplica{VolumeId: volumeID(1)})
	require.Equal(t, "A", w.s.siteOf(NodeID(w.node(1, "A"))).String())
	require.False(t, w.desired(1, "A").Apart)
	require.True(t, w.desired(1, "A").Connect)
	require.True(t, w.desired(1, "B").Connect)
}

// S48: what was given up connects when somebody decided that, also once it is kept and the other site goes on.
func TestS48_WhatWasGivenUpConnectsByDecisionOnly(t *testing.T) {
	w := newLeftBehind(t)
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.severed(1, "B")
	node := w.node(1, "B")
	w.reportCurrent(1, node, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.at("B", func(actor string) { w.ok(actor, publish(1, node)) })
	w.ok("node/"+node, w.setPrimary(1, node, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7}))
	alone := disconnectedPrimary(9)
	w.reportCurrent(1, node, alone)
	w.siteUnreachable("A", false)
	w.tornDown(1, "A")
	w.okAt("A", demote(sourceOf(1)))
	w.kept(1, "A", 1, false)
	require.False(t, w.replicaSync(1, w.node(1, "A")).KeepDue)
	for _, site := range []Site{"A", "B"} {
		require.False(t, w.desired(1, site).Connect, "site %s", site)
	}
	w.okAt("A", resync(sourceOf(1), true))
	for _, site := range []Site{"A", "B"} {
		require.True(t, w.desired(1, site).Connect, "site %s", site)
	}
}

// siteUnreachable2 is siteUnreachable of the hosts that are not lost.
func (w *related) siteUnreachable2(site Site, unreachable bool) {
	for n := range w.s.Nodes() {
		if n.site() == site && n.State != NodeLost {
			w.setUnreachable(string(n.ID), unreachable)
		}
	}
}

// S44, S46: a forced promotion that was demoted before it was used gave nothing up.
func TestS46_AForcedPromotionThatWasNotUsedIsWithdrawn(t *testing.T) {
	w := newLeftBehind(t)
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.okAt("B", demote(sourceOf(1)))
	require.Nil(t, w.volume(1).Replication.Forced)
	require.Nil(t, w.volume(1).RelationMember.GivenUp)
	require.False(t, w.replicaSync(1, w.node(1, "A")).Outdated)
	require.True(t, w.replicaSync(1, w.node(1, "B")).Outdated)
	w.siteUnreachable("A", false)
	w.tornDown(1, "A")
	w.rejectedAt("B", Busy, promote(sourceOf(1)))
	w.okAt("A", demote(sourceOf(1)))
	node := w.node(1, "A")
	w.attach(1, node, 2)
	w.reportCurrent(1, node, ReplicaObservation{Disk: upToDate, PeerDisk: inconsistent, Connection: syncSource, UUID: 8})
	w.okAt("A", promote(sourceOf(1)))
	w.isPrimary(1, "A")
}

// S43: a decision for the other replica ends that this one is to go back.
func TestS43_ADecisionForTheOtherReplicaEndsARevert(t *testing.T) {
	w := newHalfCopied(t)
	w.interrupted(1, "B")
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.siteUnreachable("A", false)
	w.siteUnreachable("B", true)
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("A", resync(sourceOf(1), true))
	w.kept(1, "A", 2, false)
	node := w.node(1, "A")
	w.reboot(node)
	w.attach(1, node, 2)
	w.reportCurrent(1, node, ReplicaObservation{Disk: inconsistent, Connection: standAlone}) // its metadata were made anew
	w.okAt("A", promoteByForce(sourceOf(1)))
	w.isPrimary(1, "A")
	require.Equal(t, HostID("host-"+node), w.volume(1).Replication.Revert.Host)
	require.Equal(t, SnapshotID(snapshotID(2)), w.desired(1, "A").RevertTo)
	require.True(t, w.volume(1).isApart("B"))
}
