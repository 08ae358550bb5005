package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S50: B was left behind, and what it has is to be kept before it is overwritten. It is promoted by force and demoted unused: A is back
// and is to be copied to it. What B has is still the only older whole content, and is kept first.
func TestS50_AWithdrawnForceForgetsTheCopy(t *testing.T) {
	w := newLeftBehind(t)
	require.True(t, w.replicaSync(1, w.node(1, "B")).KeepDue)
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.okAt("B", demote(sourceOf(1)))
	w.siteUnreachable("A", false)
	w.tornDown(1, "A")
	w.okAt("A", demote(sourceOf(1)))
	w.attach(1, w.node(1, "A"), 2)
	w.reportCurrent(1, w.node(1, "A"), ReplicaObservation{Disk: upToDate, Connection: connecting, UUID: 8})
	require.True(t, w.desired(1, "B").KeepDue, "B has a whole content, and would be overwritten without a copy of that")
	require.False(t, w.desired(1, "B").Connect)
	w.kept(1, "B", 1, true)
	require.True(t, w.desired(1, "B").Connect)
}

// S52: member 2 is in use, and its peer gets its writes. Member 1 is published while its link is down: its grant lets it go on alone as a
// verdict would, and nothing is cut.
func TestS52_AGrantGoesOnAlone(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(2, "A")
	node := w.node(1, "A")
	w.reportCurrent(1, node, disconnectedObservation(7, connecting))
	w.reportCurrent(1, w.node(1, "B"), disconnectedObservation(7, connecting))
	w.at("A", func(actor string) { w.ok(actor, publish(1, node)) })
	w.ok("node/"+node, w.setPrimary(1, node, disconnectedObservation(7, connecting)))
	asks := func() fsmpb.Verdict { // as its kernel does while it is promoted
		return w.ok("node/"+node, w.outdate(1, node, disconnectedObservation(7, connecting))).GetVerdict()
	}
	require.Equal(t, fsmpb.Verdict_VERDICT_PENDING, asks())
	w.severed(2, "B")
	require.Equal(t, peerOutdated, asks())
	require.Equal(t, w.relation(1).Cut, w.replicaSync(1, w.node(1, "B")).CutIndex)
}

// S44, S52: member 1 was left behind, and member 2 was used and replicated after that. An operator chose what B has of member 1, and said
// nothing of two instants. The group is promoted without force then, and nothing is recorded as given up.
func TestS44_ADecisionForOneMemberPromotesTheGroup(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.alone(1, "A")
	w.reportCurrent(1, w.node(1, "B"), ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.used(2, "A")
	w.siteUnreachable("A", true)
	w.reportCurrent(2, w.node(2, "B"), disconnectedObservation(7, connecting))
	w.rejectedAt("B", NeedsForce, promote(groupSource(1)))
	w.rejectedAt("B", Busy, promoteByForce(groupSource(1))) // it would be of two instants
	w.admin(forcePrimary(w.node(1, "B"), true))
	for n := 1; n <= 2; n++ {
		c := disconnectedObservation(7, standAlone)
		if n == 1 {
			c.Disk = consistent
		}
		w.reportCurrent(n, w.node(n, "B"), c)
	}
	w.at("B", func(actor string) {
		out := w.apply(actor, promote(groupSource(1)))
		require.Error(t, Err(out), "two instants, without force and without a word")
	})
}

// S48: B's replica was made for the relation, and B was primary when it was given up by force. It is told to take part again, and what it
// has is kept first. Replication is disabled before that: its device is removed with what was given up, and nothing is kept.
func TestS48_DisableRemovesWhatIsToBeKept(t *testing.T) {
	w := newConverted(t)
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("B", promote(sourceOf(1)))
	w.used(1, "B")
	w.alone(1, "B") // and acknowledges what A does not get
	a := w.node(1, "A")
	left := ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7}
	w.reportCurrent(1, a, left)
	w.siteUnreachable("B", true)
	w.okAt("A", promoteByForce(sourceOf(1)))
	left.Connection = standAlone
	w.reportCurrent(1, a, left)
	w.at("A", func(actor string) { w.ok(actor, publish(1, a)) })
	w.ok("node/"+a, w.setPrimary(1, a, left))
	w.reportCurrent(1, a, disconnectedPrimary(9))
	w.siteUnreachable("B", false)
	w.tornDown(1, "B")
	w.okAt("B", demote(sourceOf(1)))
	w.okAt("B", resync(sourceOf(1), true))
	b := w.node(1, "B")
	require.True(t, w.desired(1, "B").KeepDue)
	w.rejectedAt("A", Busy, disable(sourceOf(1)))
	require.NotEqual(t, GoalRemove, w.desiredVolume(b).Goal)
	w.kept(1, "B", 1, true)
	w.okAt("A", disable(sourceOf(1)))
	require.Equal(t, GoalRemove, w.desiredVolume(b).Goal)
}

func (w *related) desiredVolume(node string) DesiredVolume {
	w.t.Helper()
	d, ok := w.s.DesiredVolume(NodeID(node), VolumeID(volumeID(1)))
	require.True(w.t, ok)
	return d
}

// S48, S54: the same replica, while it is apart: no drain of its host and no re-replication removes what nobody decided about.
func TestS48_WhatIsApartIsRemoved(t *testing.T) {
	w := newLeftBehind(t)
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.severed(1, "B")
	b, a := w.node(1, "B"), w.node(1, "A")
	left := ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7}
	w.reportCurrent(1, b, left)
	w.at("B", func(actor string) { w.ok(actor, publish(1, b)) })
	w.ok("node/"+b, w.setPrimary(1, b, left))
	w.reportCurrent(1, b, disconnectedPrimary(9))
	w.siteUnreachable("A", false)
	w.tornDown(1, "A")
	require.True(t, w.desired(1, "A").Apart)
	out := w.apply(controller, removeReplica(a))
	require.Error(t, Err(out))
}

// S8, S52: the role was taken from a dead site, and one member is published at the other. It does not wait for what the former
// primary of another one may still do.
func TestS52_ATakeoverIsNotHeldBackForADeadSite(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	w.siteUnreachable("A", true)
	w.okAt("B", promote(groupSource(1)))
	for range 2 {
		for n := 1; n <= 2; n++ {
			w.severed(n, "B")
		}
	}
	w.isPrimary(1, "B")
	node := w.node(1, "B")
	alone := disconnectedObservation(7, standAlone)
	w.at("B", func(actor string) { w.ok(actor, publish(1, node)) })
	w.ok("node/"+node, w.setPrimary(1, node, alone))
	require.NotEmpty(t, w.volume(2).Teardowns)
	require.Equal(t, peerOutdated, w.ok("node/"+node, w.outdate(1, node, alone)).GetVerdict())
}
