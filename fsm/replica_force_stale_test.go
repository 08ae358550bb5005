package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S8, S30, S44: an operator attested that A does not run, and chose B; A came back instead and went on, and the decision was not used.
// When A cannot be asked once more, B is promoted without force although it lacks what A acknowledged: nobody consented to that.
func TestS44_ADecisionOutlivesItsAttestation(t *testing.T) {
	w := newLeftBehind(t) // A went on alone, and cannot be asked
	b := w.node(1, "B")
	w.admin(forcePrimary(b, true))
	w.siteUnreachable("A", false)
	w.reportCurrent(1, w.node(1, "A"), writesAlone(8)) // it is alive, primary, and acknowledges
	w.siteUnreachable("A", true)                       // the controllers' link to A is lost again
	w.rejectedAt("B", NeedsForce, promote(sourceOf(1)))
}

// The same with protocol A, where A and B are connected all the time, and the host at A is given up by its orchestrator days later: S11
// asks for a decision of now.
func TestS11_ADecisionOutlivesItsAttestation(t *testing.T) {
	w := newReplicated(t, protocolA)
	w.primary(1, "n1", 7)
	w.setUnreachable("n1", true)
	w.ok(admin, forcePrimary("n2", true))
	w.setUnreachable("n1", false)
	observed := inSyncObservation(7)
	observed.Primary = true
	w.reportCurrent(1, "n1", observed)
	w.reportCurrent(1, "n2", inSyncObservation(7))
	w.setUnreachable("n1", true)
	w.rejected(Unreachable, controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
}

// The same with one site's own decision and no relation: protocol C, n2 was left behind, n1 came back and went on.
func TestS8_ADecisionOutlivesItsAttestation(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	ask1(w)
	w.reportCurrent(1, "n1", disconnectedPrimary(8))
	w.setUnreachable("n1", true)
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: consistent, Connection: connecting, UUID: 7})
	w.ok(admin, forcePrimary("n2", true))
	w.setUnreachable("n1", false)
	w.reportCurrent(1, "n1", writesAlone(8))
	w.setUnreachable("n1", true)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)}) // the orchestrator gives n1 up
	w.reportCurrent(1, "n2", ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	out := w.apply(controller, publish(1, "n2"))
	if Err(out) == nil {
		out = w.apply("node/n2", w.setPrimary(1, "n2", ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7}))
	}
	require.Error(t, Err(out), "n2 lacks what n1 acknowledged, also since it was attested dead")
}

// S46, S47: the same, and A's use ends cleanly later; the role is moved to B by a planned relocation, without force, while all hosts are
// there. B has what it had when it was left behind, and A's writes since then are given up.
func TestS46_ARelocationCarriesOutAnOldDecision(t *testing.T) {
	w := newLeftBehind(t)
	a, b := w.node(1, "A"), w.node(1, "B")
	w.admin(forcePrimary(b, true))
	w.siteUnreachable("A", false)
	w.reportCurrent(1, a, writesAlone(8)) // A goes on, for weeks
	w.reportCurrent(1, b, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	epoch := w.volume(1).Publication(NodeID(a)).Epoch
	w.reportCurrent(1, a, disconnectedObservation(8, standAlone))
	w.unstaged(1, a, epoch)
	w.okAt("A", &fsmpb.UnpublishVolume{VolumeId: volumeID(1), NodeId: a})
	w.okAt("A", demote(sourceOf(1)))
	w.reportCurrent(1, a, disconnectedObservation(8, standAlone))
	w.reportCurrent(1, b, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.rejectedAt("B", Busy, promote(sourceOf(1)))
}

// S50: the same while A goes on: what B has is neither kept nor brought up to date as long as the decision stands, and nobody says so.
func TestS50_AnOldDecisionKeepsAReplicaBehind(t *testing.T) {
	w := newLeftBehind(t)
	w.admin(forcePrimary(w.node(1, "B"), true))
	w.siteUnreachable("A", false)
	w.reportCurrent(1, w.node(1, "A"), writesAlone(8))
	d := w.desired(1, "B")
	require.False(t, d.Outdated && d.Force && d.KeepDue, "executor/plan neither keeps nor connects it")
}

// S8: the same without any relation, and the pod is only rescheduled: n1 unpublished cleanly, and n2 is next. All hosts are there, n1 has
// everything, and n2 is promoted with what it had when it was left behind.
func TestS8_ARescheduleCarriesOutAnOldDecision(t *testing.T) {
	w := newReplicated(t, protocolC)
	w.primary(1, "n1", 7)
	ask1(w)
	w.reportCurrent(1, "n1", disconnectedPrimary(8))
	w.setUnreachable("n1", true)
	stale := ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7}
	w.reportCurrent(1, "n2", stale)
	w.ok(admin, forcePrimary("n2", true))
	w.setUnreachable("n1", false) // it was not dead, and the decision was not used
	w.reportCurrent(1, "n1", writesAlone(8))
	epoch := w.volume(1).Publication("n1").Epoch
	w.reportCurrent(1, "n1", disconnectedObservation(8, standAlone))
	w.unstaged(1, "n1", epoch)
	w.ok(controller, &fsmpb.UnpublishVolume{VolumeId: volumeID(1)})
	w.reportCurrent(1, "n1", disconnectedObservation(8, standAlone))
	w.reportCurrent(1, "n2", stale)
	out := w.apply(controller, publish(1, "n2"))
	if Err(out) == nil {
		out = w.apply("node/n2", w.setPrimary(1, "n2", stale))
	}
	require.Error(t, Err(out), "n1 has what it acknowledged since n2 was left behind")
}

// writesAlone is a primary that goes on without its peer.
func writesAlone(uuid uint64) ReplicaObservation {
	x := disconnectedPrimary(uuid)
	x.Suspended = false
	return x
}
