package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S52: member 2's former primary, which reaches no controller, may still write to it and its peer still gets that; member 1 must
// not go on alone before that is cut.
func TestS52_AFormerPrimaryIsNotCut(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	former, peer := w.node(2, "A"), w.node(2, "B")
	require.NotEqual(t, w.node(1, "A"), former)
	w.setUnreachable(former, true)
	w.setUnreachable(peer, true)
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(2), NodeId: former})
	require.NotNil(t, w.volume(2).Teardown(HostID("host-"+former)))
	require.False(t, w.s.FormerPrimaryIsolated(VolumeID(volumeID(2))), "it may still write, and its peer gets it")
	out := w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(7)))
	require.Equal(t, fsmpb.Verdict_VERDICT_PENDING, out.GetVerdict())
}

// The same with a fence: the fenced host's kernel still writes until its peer disconnected it.
func TestS52_AFencedPrimaryIsNotCut(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	former := w.node(2, "A")
	require.NotEqual(t, w.node(1, "A"), former)
	w.admin(&fsmpb.FenceNetwork{Cidrs: []string{"10.0.0." + former[1:] + "/32"}})
	require.NotNil(t, w.volume(2).Teardown(HostID("host-"+former)))
	require.False(t, w.s.isSevered(w.volume(2), w.volume(2).PeerReplica(HostID("host-"+former))))
	out := w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(7)))
	require.Equal(t, fsmpb.Verdict_VERDICT_PENDING, out.GetVerdict())
}

// S52, S67: a member whose primary reads through its peer is not cut from the only whole copy; the others go on without
// it, and no force makes a group of what they left behind and what it goes on to send.
func TestS52_S67_AMemberWithoutADiskIsNotCut(t *testing.T) {
	for name, change := range map[string]func(*ReplicaObservation){
		"it has none":        func(o *ReplicaObservation) { o.Disk = fsmpb.DiskState_DISK_STATE_DISKLESS },
		"it is being copied": func(o *ReplicaObservation) { o.Disk, o.Connection = inconsistent, syncTarget },
	} {
		t.Run(name, func(t *testing.T) {
			w := newRelatedGroup(t)
			w.used(1, "A")
			w.used(2, "A")
			reads := ReplicaObservation{Primary: true, PeerDisk: upToDate, Connection: connected, UUID: 7}
			change(&reads)
			w.reportCurrent(2, w.node(2, "A"), reads)
			require.Equal(t, peerOutdated, w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(7))).GetVerdict())
			require.True(t, w.desired(2, "A").Connect)
			require.True(t, w.desired(2, "B").Connect)
			w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
			w.siteUnreachable("A", true)
			w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(7, connecting))
			w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
		})
	}
}

// S43: what was never whole since Enable is not promoted by any force.
func TestS43_WholeBeforeEnableOnly(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	w.okAt("A", disable(sourceOf(1)))
	w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(7)))
	require.True(t, w.replicaSync(1, w.node(1, "B")).Outdated)
	w.okAt("A", enable(sourceOf(1), "B"))
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
	w.siteUnreachable("A", true)
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
}

// S44, S52: a member that left and joined again is of an older instant than the others.
func TestS44_AMemberThatJoinedAgainIsOlder(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	ask := func(n int) fsmpb.Verdict {
		return w.ok("node/"+w.node(n, "A"), w.outdate(n, w.node(n, "A"), disconnectedPrimary(7))).GetVerdict()
	}
	ask(1)
	w.severed(2, "B")
	require.Equal(t, peerOutdated, ask(1))
	require.Equal(t, peerOutdated, ask(2))
	for n := 1; n <= 2; n++ {
		w.reportCurrent(n, w.node(n, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
		w.kept(n, "B", n, true)
	}
	// 1 is copied, 2 is not yet
	primary := inSyncObservation(9)
	primary.Primary = true
	w.reportCurrent(1, w.node(1, "A"), primary)
	w.reportCurrent(1, w.node(1, "B"), inSyncObservation(9))
	w.reportCurrent(1, w.node(1, "A"), primary)
	require.True(t, w.volume(1).RelationMember.Ahead)
	w.okAt("A", modifyVolumeGroup(1, 1))
	w.okAt("A", modifyVolumeGroup(1, 1, 2))
	w.reportCurrent(2, w.node(2, "B"), ReplicaObservation{Disk: fsmpb.DiskState_DISK_STATE_OUTDATED, Connection: connecting, UUID: 7})
	w.siteUnreachable("A", true)
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
}

// S53: a plain volume joins a replicated group, and cannot be converted in time: the other members stay replicated.
func TestS53_AJoinThatFailsEndsTheGroupsRelation(t *testing.T) {
	w := newRelatedGroup(t)
	w.readyAt("A", 3, create(3))
	w.okAt("A", modifyVolumeGroup(1, 1, 2, 3))
	c := w.volume(3).converting()
	require.NotNil(t, c)
	w.ok(controller, &fsmpb.CancelConversion{VolumeId: volumeID(3), Began: c.Began})
	g, _ := w.s.VolumeGroup(VolumeGroupID(volumeGroupID(1)))
	require.NotNil(t, g.Relation, "volumes 1 and 2 are replicated no more, and nobody disabled that")
}

// S44, S52: member 1 is behind at B since it was used at A without its peer; member 2 is used only after that, and all of it goes to
// B. Force makes a group of two instants, and says nothing.
func TestS44_AMemberThatIsUsedAfterTheCutIsAhead(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.alone(1, "A")
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.kept(1, "B", 1, true)
	w.syncing(1, "B") // it is copied for hours
	w.used(2, "A")    // what is written now depends on what was written to member 1
	w.siteUnreachable("A", true)
	w.interrupted(1, "B")
	w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(7, connecting))
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
}

// S53, S38: the same join, and A burns while member 3 is being converted: the failover that the group was made for is refused for ever.
func TestS53_AJoinThatFailsEndsTheFailover(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.readyAt("A", 3, create(3))
	w.okAt("A", modifyVolumeGroup(1, 1, 2, 3))
	w.siteUnreachable("A", true)
	for n := 1; n <= 2; n++ {
		w.reportCurrent(n, w.node(n, "B"), disconnectedObservation(7, connecting))
	}
	try := func(body proto.Message) (err error) {
		w.at("B", func(actor string) { err = Err(w.apply(actor, body)) })
		return err
	}
	w.ok(controller, &fsmpb.CancelConversion{VolumeId: volumeID(3), Began: w.volume(3).converting().Began})
	err := try(promote(groupSource(1)))
	require.NoError(t, err)
}

// S44, S52: member 1, which was ahead, is lost again while member 2 is still copied; that goes on, and ends. Now member 2 is ahead, and
// member 1 is not; force makes a group of two instants, and says nothing.
func TestS44_AMemberThatWasAheadIsLeftBehind(t *testing.T) {
	w := newOneAhead(t)
	verdict := w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(8))).GetVerdict()
	require.Equal(t, peerOutdated, verdict)
	node := w.node(1, "B")
	w.reportCurrent(1, node, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 8})
	w.ok("node/"+node, w.keep(1, node, 3, true))
	w.caughtUp(2) // with everything that was written since member 1 was lost
	require.True(t, w.volume(2).allInSync())
	w.siteUnreachable("A", true)
	w.reportCurrent(1, node, ReplicaObservation{Disk: fsmpb.DiskState_DISK_STATE_OUTDATED, Connection: connecting, UUID: 8})
	w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(8, connecting))
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1)))
}

// The same, and member 1 is half copied again when A is lost: force takes it back to the first cut, beside member 2 of today.
func TestS44_AMemberThatWasAheadGoesBackAlone(t *testing.T) {
	w := newOneAhead(t)
	require.Equal(t, peerOutdated, w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(8))).GetVerdict())
	node := w.node(1, "B")
	w.reportCurrent(1, node, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 8})
	w.ok("node/"+node, w.keep(1, node, 3, true))
	w.syncing(1, "B")
	w.caughtUp(2)
	w.siteUnreachable("A", true)
	w.interrupted(1, "B")
	w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(8, connecting))
	w.at("B", func(actor string) {
		out := w.apply(actor, promoteByForce(groupSource(1)))
		t.Log(Err(out), out.GetGivenUp())
		require.Error(t, Err(out))
	})
}

// S48, S53: what site A has was given up by force, and stays apart until somebody decides. A plain volume joins the group at site B and is
// not converted in time: what A has is discarded then, and nobody asked for that.
func TestS48_AJoinThatFailsDiscardsWhatWasGivenUp(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.alone(1, "A")
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
	w.siteUnreachable("A", true)
	w.okAt("B", promoteByForce(groupSource(1)))
	b := w.node(1, "B")
	w.severed(1, "B")
	w.reportCurrent(1, b, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.at("B", func(actor string) { w.ok(actor, publish(1, b)) })
	w.ok("node/"+b, w.setPrimary(1, b, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7}))
	alone := disconnectedPrimary(9)
	w.reportCurrent(1, b, alone)
	w.siteUnreachable("A", false)
	w.tornDown(1, "A")
	require.True(t, w.desired(1, "A").Apart)
	w.readyAt("B", 3, create(3))
	w.okAt("B", modifyVolumeGroup(1, 1, 2, 3))
	w.ok(controller, &fsmpb.CancelConversion{VolumeId: volumeID(3), Began: w.volume(3).converting().Began})
	w.kept(1, "A", 1, false)
	d := w.desired(1, "A")
	require.False(t, d.Connect, "A discards what it has when it connects")
}

// S52: the link of both members is lost for a moment. Member 1 asks when member 2 was seen without its peer; nobody is asked to cut
// member 2, which connects again by itself and is never left behind, while member 1 goes on alone.
func TestS52_AConnectionThatComesBackIsTakenForCut(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(7, connecting)) // it waits for its peer, and is no StandAlone
	verdict := w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(7))).GetVerdict()
	w.reportCurrent(2, w.node(2, "B"), inSyncObservation(7)) // the link is back
	primary := inSyncObservation(7)
	primary.Primary = true
	w.reportCurrent(2, w.node(2, "A"), primary)
	if verdict == peerOutdated {
		require.False(t, w.desired(2, "A").Connect && w.desired(2, "B").Connect, "member 1 goes on alone, and member 2 goes on with its peer")
	}
}

// S42, S52: the other site takes a group over whose primary's hosts are dead. The first member that is used there asks
// about its peer while the other one's former primary is not known to have ended: it goes on, and the cut ends.
func TestS42_S52_AGroupThatIsTakenOverGoesOn(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	w.siteUnreachable("A", true)
	w.okAt("B", promote(groupSource(1)))
	for n := 1; n <= 2; n++ {
		w.severed(n, "B")
	}
	w.isPrimary(1, "B")
	for n := 1; n <= 2; n++ {
		b := w.node(n, "B")
		w.at("B", func(actor string) { w.ok(actor, publish(n, b)) })
		w.ok("node/"+b, w.setPrimary(n, b, disconnectedObservation(7, standAlone)))
		asks := 0
		for verdict := fsmpb.Verdict_VERDICT_PENDING; verdict != peerOutdated; asks++ {
			require.Less(t, asks, 3, "member %d", n)
			verdict = w.ok("node/"+b, w.outdate(n, b, disconnectedPrimary(7))).GetVerdict()
			for other := 1; other <= 2; other++ {
				if other != n {
					w.severed(other, "B")
				}
			}
		}
		w.reportCurrent(n, b, disconnectedPrimary(7))
	}
	require.Zero(t, w.relation(1).Cut)
}

// S44, S53: what joins a group while one of its members is ahead of it holds nothing back once it left again.
func TestS44_S53_AJoinThatFailsHoldsNothingBack(t *testing.T) {
	w := newOneAhead(t)
	w.readyAt("A", 3, create(3))
	w.okAt("A", modifyVolumeGroup(1, 1, 2, 3))
	w.caughtUp(2)
	require.True(t, w.volume(1).RelationMember.Ahead || w.volume(2).RelationMember.Ahead)
	w.ok(controller, &fsmpb.CancelConversion{VolumeId: volumeID(3), Began: w.volume(3).converting().Began})
	for n := 1; n <= 2; n++ {
		require.False(t, w.volume(n).RelationMember.Ahead, "member %d", n)
	}
}
