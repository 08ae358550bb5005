package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S43, S44: A was ousted by force once, and what it had then, which nobody has any more, is kept (S9). Long after both sites were equal
// again A is half copied, without a copy of what it had, when B is lost: force is not the answer, and it is no consent to go back to
// what was given up then.
func TestS43_ForceGoesBackToWhatWasGivenUpLongAgo(t *testing.T) {
	w := newLeftBehind(t)
	w.okAt("B", promoteByForce(sourceOf(1)))
	w.severed(1, "B")
	a, b := w.node(1, "A"), w.node(1, "B")
	w.reportCurrent(1, b, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7})
	w.at("B", func(actor string) { w.ok(actor, publish(1, b)) })
	w.ok("node/"+b, w.setPrimary(1, b, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 7}))
	w.reportCurrent(1, b, disconnectedPrimary(9))
	w.siteUnreachable("A", false)
	w.tornDown(1, "A")
	w.okAt("A", demote(sourceOf(1)))
	w.kept(1, "A", 1, false) // the fork that was given up
	w.okAt("A", resync(sourceOf(1), true))
	both := func(uuid uint64) {
		primary := inSyncObservation(uuid)
		primary.Primary = true
		w.reportCurrent(1, b, primary)
		w.reportCurrent(1, a, inSyncObservation(uuid))
		w.reportCurrent(1, b, primary)
		require.True(t, w.volume(1).allInSync())
	}
	w.attach(1, a, 2)
	both(10)
	fork, _ := w.s.Snapshot(SnapshotID(snapshotID(1)))
	require.False(t, fork.KeptCopy.Superseded.IsZero())
	// days later
	out := w.ok("node/"+b, w.outdate(1, b, disconnectedPrimary(10)))
	require.Equal(t, peerOutdated, out.GetVerdict())
	w.reportCurrent(1, a, ReplicaObservation{Disk: consistent, Connection: standAlone, UUID: 10})
	c := w.keep(1, a, 2, true)
	c.Trouble = "its pool copies blocks"
	w.twice("node/"+a, c)
	w.syncing(1, "A")
	w.siteUnreachable("B", true)
	w.interrupted(1, "A")
	w.at("A", func(actor string) {
		out := w.apply(actor, promoteByForce(sourceOf(1)))
		require.Error(t, Err(out), "what it had before was not kept")
	})
}
