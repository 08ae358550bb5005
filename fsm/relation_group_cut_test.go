package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// askAlone is a request of member n's primary at A to go on without its peer.
func (w *related) askAlone(n int, uuid uint64) fsmpb.Verdict {
	w.t.Helper()
	return w.ok("node/"+w.node(n, "A"), w.outdate(n, w.node(n, "A"), disconnectedPrimary(uuid))).GetVerdict()
}

// unpublishedCleanly: the pod at A is gone, and its host is secondary.
func (w *related) unpublishedCleanly(n int, uuid uint64) {
	w.t.Helper()
	node := w.node(n, "A")
	epoch := w.volume(n).Publication(NodeID(node)).Epoch
	w.reportCurrent(n, node, inSyncObservation(uuid))
	w.unstaged(n, node, epoch)
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(n), NodeId: node})
	w.reportCurrent(n, node, inSyncObservation(uuid))
	w.reportCurrent(n, w.node(n, "B"), inSyncObservation(uuid))
	require.Empty(w.t, w.volume(n).Publications())
	require.Empty(w.t, w.volume(n).Teardowns)
}

// S44: a group was promoted by force at B, and so far only member 2 was used there. B is demoted (a relocation back): for member 1
// the force is withdrawn, and for member 2 it is not. The group is of A's member 1, with what was given up, and of B's member 2.
func TestS44_ForceIsWithdrawnOfAPartOfTheGroup(t *testing.T) {
	w := newRelatedGroup(t)
	for n := 1; n <= 2; n++ {
		w.used(n, "A")
	}
	w.siteUnreachable("A", true) // and A's power is gone; both of B were rebooted before they could report
	for n := 1; n <= 2; n++ {
		b := w.node(n, "B")
		w.reboot(b)
		w.attach(n, b, 2)
		w.reportCurrent(n, b, ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
	}
	w.rejectedAt("B", NeedsForce, promote(groupSource(1)))
	w.okAt("B", promoteByForce(groupSource(1)))
	for n := 1; n <= 2; n++ {
		w.reportCurrent(n, w.node(n, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	}
	b := w.node(2, "B")
	w.at("B", func(actor string) { w.ok(actor, publish(2, b)) })
	require.True(t, w.ok("node/"+b, w.setPrimary(2, b, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})).GetForce())
	w.reportCurrent(2, b, disconnectedPrimary(9)) // it is written to at B
	secondary := disconnectedObservation(9, standAlone)
	w.reportCurrent(2, b, secondary)
	w.unstaged(2, b, w.volume(2).Publication(NodeID(b)).Epoch)
	w.okAt("B", &fsmpb.UnpublishVolume{VolumeId: volumeID(2), NodeId: b})
	w.okAt("B", demote(groupSource(1)))
	one, two := w.replicaSync(1, w.node(1, "A")).Outdated, w.replicaSync(2, w.node(2, "A")).Outdated
	require.Equal(t, one, two, "what A has of one member is given up, and of the other one it is what counts")
}

// S44, S52: member 1 is used without its peer for a while; member 2, which is used all the time, is sent to B with all that comes after.
// When member 2's use ended before A is lost, force makes two instants and says nothing.
func TestS44_AMemberWhoseUseEndedIsNewer(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(2, "A")
	node := w.node(1, "A")
	w.reportCurrent(1, node, disconnectedObservation(7, connecting)) // member 1's link is down, and it is not in use
	w.reportCurrent(1, w.node(1, "B"), disconnectedObservation(7, connecting))
	w.at("A", func(actor string) { w.ok(actor, publish(1, node)) })
	w.ok("node/"+node, w.setPrimary(1, node, disconnectedObservation(7, connecting)))
	w.reportCurrent(1, node, disconnectedPrimary(7))
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
	w.alone(1, "A")
	// what is written to member 2 now depends on what was written to member 1, and B gets it
	w.unpublishedCleanly(2, 8)
	w.siteUnreachable("A", true)
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
	w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(8, connecting))
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
}

// The same where member 2's primary reads through its peer, and site A burns: its hosts are lost, as an operator says.
func TestS44_AMemberWhoseHostIsLostIsNewer(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	w.reportCurrent(2, w.node(2, "A"), ReplicaObservation{Primary: true, PeerDisk: upToDate, Connection: connected, UUID: 7, Disk: fsmpb.DiskState_DISK_STATE_DISKLESS})
	require.Equal(t, peerOutdated, w.askAlone(1, 7))
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.siteUnreachable("A", true)
	w.lose(2, "A")
	w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(7, connecting))
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
}

// The same, and the host of member 2 is not lost, but it is booted again, and its pod went elsewhere.
func TestS44_AMemberThatWasUnpublishedByForceIsNewer(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	w.reportCurrent(2, w.node(2, "A"), ReplicaObservation{Primary: true, PeerDisk: upToDate, Connection: connected, UUID: 7, Disk: fsmpb.DiskState_DISK_STATE_DISKLESS})
	require.Equal(t, peerOutdated, w.askAlone(1, 7))
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.siteUnreachable("A", true)
	w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(7, connecting))
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(2)}) // the orchestrator of A, whose controllers live, gives its node up
	w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(7, standAlone))
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
}

// S44, S52: member 3 joins while the group is cut, and member 1 goes on alone already. What is written to member 3 until it is cut
// goes to B, and counts as of the same cut.
func TestS52_AMemberJoinsDuringTheCut(t *testing.T) {
	w := newTwoSites(t, 3)
	w.okAt("A", createVolumeGroup(1, 1, 2))
	w.okAt("A", enable(groupSource(1), "B"))
	w.used(1, "A")
	w.used(2, "A")
	node := w.node3("A")
	w.at("A", func(actor string) { w.ok(actor, publish(3, node)) })
	w.ok("node/"+node, w.setPrimary(3, node, inSyncObservation(7)))
	observed := inSyncObservation(7)
	observed.Primary = true
	w.reportCurrent(3, node, observed)
	w.reportCurrent(3, w.node3("B"), inSyncObservation(7))
	require.Equal(t, fsmpb.Verdict_VERDICT_PENDING, w.askAlone(1, 7))
	w.severed(2, "B")
	require.Equal(t, peerOutdated, w.askAlone(1, 7)) // and goes on
	require.NotZero(t, w.relation(1).Cut)
	w.okAt("A", modifyVolumeGroup(1, 1, 2, 3))
	require.True(t, w.s.replicatesWrites(w.volume(3)), "B gets what is written to member 3 until its host heard of it")
	w.severed(3, "B")
	require.Equal(t, peerOutdated, w.askAlone(3, 7))
	require.Equal(t, peerOutdated, w.askAlone(2, 7))
	for n := 1; n <= 3; n++ {
		w.reportCurrent(n, w.node(n, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	}
	w.siteUnreachable("A", true)
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
}

func (w *related) node3(site Site) string { return w.node(3, site) }

// S44, S52: of member 2 the primary at A has no disk when the group is cut, so that it is not cut. Its disk is copied while member 3
// has yet to ask; it is cut then, and counts as of the first cut.
func TestS52_AMemberIsCutLater(t *testing.T) {
	w := newTwoSites(t, 3)
	w.okAt("A", createVolumeGroup(1, 1, 2, 3))
	w.okAt("A", enable(groupSource(1), "B"))
	for n := 1; n <= 3; n++ {
		w.used(n, "A")
	}
	w.reportCurrent(2, w.node(2, "A"), ReplicaObservation{Primary: true, PeerDisk: upToDate, Connection: syncTarget, UUID: 7, Disk: inconsistent})
	require.Equal(t, fsmpb.Verdict_VERDICT_PENDING, w.askAlone(1, 7))
	w.severed(3, "B")
	require.Equal(t, peerOutdated, w.askAlone(1, 7)) // and goes on
	require.NotZero(t, w.relation(1).Cut)
	require.True(t, w.desired(2, "A").Connect)
	whole := inSyncObservation(7)
	whole.Primary = true
	w.reportCurrent(2, w.node(2, "A"), whole)
	w.reportCurrent(2, w.node(2, "B"), inSyncObservation(7))
	w.reportCurrent(2, w.node(2, "A"), whole)
	require.False(t, w.desired(2, "A").Connect)
	w.severed(2, "B")
	require.Equal(t, peerOutdated, w.askAlone(2, 7))
	require.Equal(t, peerOutdated, w.askAlone(3, 7))
	for n := 1; n <= 3; n++ {
		w.reportCurrent(n, w.node(n, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	}
	w.siteUnreachable("A", true)
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
}

// S44, S52: member 1's copy had ended by B's word, and A lost it again before it said so too; it went on alone. Member 2 is up to date
// since, with all that was written to it.
func TestS44_AMemberThatWasCopiedIsLostAgain(t *testing.T) {
	w := newOneAhead(t) // 1 is ahead, 2 is half copied
	w.reportCurrent(2, w.node(2, "B"), inSyncObservation(8))
	require.True(t, w.replicaSync(2, w.node(2, "B")).Copied)
	require.True(t, w.replicaSync(2, w.node(2, "B")).Outdated)
	require.Equal(t, fsmpb.Verdict_VERDICT_PENDING, w.askAlone(2, 8), "member 1 is cut first")
	w.severed(1, "B")
	require.Equal(t, peerOutdated, w.askAlone(2, 8))
	require.Equal(t, peerOutdated, w.askAlone(1, 8))
	one, two := w.replicaSync(1, w.node(1, "B")), w.replicaSync(2, w.node(2, "B"))
	require.NotZero(t, one.CutIndex)
	require.Equal(t, one.CutIndex, two.CutIndex)
	require.False(t, one.Copied || two.Copied)
}

// newAheadOfLost is newOneAhead which a plain volume joined, on a host that burnt before it was converted. The others are up to date since.
func newAheadOfLost(t testing.TB) *related {
	w := newOneAhead(t)
	r := replicating("n5")
	r.Site = "A"
	w.ok("node/n5", r)
	for _, full := range []string{"n1", "n2"} {
		w.admin(&fsmpb.ScheduleNode{NodeId: full, HostId: "host-" + full, Cordoned: true})
	}
	w.readyAt("A", 3, create(3))
	require.Equal(t, NodeID("n5"), w.volume(3).Replicas[0].Node)
	w.okAt("A", modifyVolumeGroup(1, 1, 2, 3))
	w.caughtUp(2)
	w.admin(&fsmpb.LoseNode{NodeId: "n5", HostId: "host-n5", Reason: "burnt"})
	require.Nil(t, w.volume(3).RelationMember)
	for n := 1; n <= 2; n++ {
		require.True(t, w.volume(n).allInSync())
	}
	return w
}

// S50, S52: nobody is ahead of what was lost.
func TestS50_AMemberIsAheadOfWhatWasLost(t *testing.T) {
	w := newAheadOfLost(t)
	for n := 1; n <= 2; n++ {
		require.False(t, w.volume(n).RelationMember.Ahead, "member %d", n)
	}
}

// S43, S50: days later the group is cut again. What each member has then is kept, and not taken for kept because of the copy of the first
// cut: force would go back to that.
func TestS50_ACopyOfLongAgoIsTakenForWhatIsKept(t *testing.T) {
	w := newAheadOfLost(t)
	w.askAlone(1, 8)
	w.severed(2, "B")
	require.Equal(t, peerOutdated, w.askAlone(1, 8))
	require.Equal(t, peerOutdated, w.askAlone(2, 8))
	for n := 1; n <= 2; n++ {
		node := w.node(n, "B")
		w.reportCurrent(n, node, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 8})
		require.Equal(t, snapshotID(10+n), w.ok("node/"+node, w.keep(n, node, 10+n, true)).GetSnapshotId(), "member %d would go back days", n)
	}
}
