package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S40, S67: an operator chose the half copied replica of B while A could not be asked, and A came back. Neither is copied from the other then,
// and each promotion names the decision that lets A's go on, instead of a copy that nobody makes.
func TestS40_APromotionNamesTheDecisionThatIsNeeded(t *testing.T) {
	w := newHalfCopied(t)
	w.interrupted(1, "B")
	w.siteUnreachable("A", true)
	w.admin(forcePrimary(w.node(1, "B"), true))
	w.siteUnreachable("A", false)
	w.reboot(w.node(1, "A"))
	w.attach(1, w.node(1, "A"), 2)
	w.reportCurrent(1, w.node(1, "A"), ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 8})
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	if end := w.volume(1).Teardown(HostID("host-" + w.node(1, "A"))); end != nil {
		w.unstaged(1, w.node(1, "A"), end.Epoch)
	}
	w.okAt("A", demote(sourceOf(1)))
	decision := "`holdfast volumes force-primary " + volumeID(1) + " " + w.node(1, "A") + "`"
	for _, site := range []string{"A", "B"} {
		w.at(site, func(actor string) {
			rej := w.rejected(Busy, actor, promote(sourceOf(1))).GetRejection()
			require.Contains(t, rej.GetMessage(), decision, site)
			require.NotContains(t, rej.GetMessage(), "are coming", site)
		})
	}
	w.admin(forcePrimary(w.node(1, "A"), true))
	w.okAt("A", promote(sourceOf(1)))
	w.isPrimary(1, "A")
	require.True(t, w.desired(1, "B").Connect, "it is copied from A again")
	require.False(t, w.desired(1, "B").Force)
}

// S43: the log is restored while B, half copied, goes back to what it kept. A, which was given up, goes on by a decision.
func TestS43_ARestoreInTheMiddleOfARevertHasAWayOut(t *testing.T) {
	w := newHalfCopied(t)
	w.interrupted(1, "B")
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.siteUnreachable("A", false)
	w.tornDown(1, "A")
	w.admin(&fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
	for n := range w.s.Nodes() {
		w.admin(&fsmpb.AdoptNode{NodeId: string(n.ID), HostId: string(n.Host), Incarnation: 2})
	}
	a := w.node(1, "A")
	w.okAt("B", demote(sourceOf(1)))
	w.okAt("A", demote(sourceOf(1)))
	w.okAt("A", resync(sourceOf(1), true))
	w.kept(1, "A", 2, false)
	w.admin(forcePrimary(a, false))
	w.attach(1, a, 2)
	w.reportCurrent(1, a, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 8})
	w.okAt("A", promote(sourceOf(1)))
	w.at("A", func(actor string) { w.ok(actor, publish(1, a)) })
	require.True(t, w.ok("node/"+a, w.setPrimary(1, a, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 8})).GetForce())
}
