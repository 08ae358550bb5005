package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S52: no member of a group goes on without its peer before each other one that is in use is cut.
func TestS52_VerdictsOfAGroupWaitForEachOther(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	ask := func(n int) fsmpb.Verdict {
		return w.ok("node/"+w.node(n, "A"), w.outdate(n, w.node(n, "A"), disconnectedPrimary(7))).GetVerdict()
	}
	require.Equal(t, fsmpb.Verdict_VERDICT_PENDING, ask(1))
	require.Equal(t, fsmpb.Verdict_VERDICT_PENDING, ask(1))
	require.False(t, w.replicaSync(1, w.node(1, "B")).Outdated)
	for _, n := range []int{1, 2} {
		require.False(t, w.desired(n, "A").Connect)
		require.False(t, w.desired(n, "B").Connect)
	}
	w.severed(2, "B")
	require.Equal(t, peerOutdated, ask(1))
	require.False(t, w.desired(1, "A").Connect, "the other one has not asked yet")
	require.Equal(t, peerOutdated, ask(2))
	require.Zero(t, w.relation(1).Cut)
	require.True(t, w.desired(1, "B").KeepDue, "S50")
	require.False(t, w.desired(1, "A").Connect, "not before what B has is kept")
}

// S52: what is published and was not granted yet is not granted beside its peer while the others are cut, and a member
// that is not in use, or whose host was booted again, is not waited for.
func TestS52_AMemberThatIsNotGrantedIsNotWaitedFor(t *testing.T) {
	w := newRelatedGroup(t)
	w.used(1, "A")
	w.used(2, "A")
	pending := w.ok("node/"+w.node(1, "A"), w.outdate(1, w.node(1, "A"), disconnectedPrimary(7)))
	require.Equal(t, fsmpb.Verdict_VERDICT_PENDING, pending.GetVerdict())
	node := w.node(2, "A")
	w.reportCurrent(2, node, inSyncObservation(7))
	w.unstaged(2, node, w.volume(2).Publication(NodeID(node)).Epoch)
	if w.relation(1).Cut != 0 {
		w.rejected(Busy, "node/"+node, w.setPrimary(2, node, inSyncObservation(7)))
	}
	w.alone(1, "A")
	require.Zero(t, w.relation(1).Cut)
}

// S1, S41: after a restore nobody has the role, and who has it says an operator.
func TestS41_AfterARestoreEachSiteIsOusted(t *testing.T) {
	w := newRelated(t)
	w.used(1, "A")
	w.admin(&fsmpb.ReplaceIncarnation{Counter: 2, IncarnationId: bytesOf("2", 16)})
	w.isPrimary(1, "")
	w.rejectedAt("A", Busy, promote(sourceOf(1)))
	w.rejectedAt("B", Busy, promoteByForce(sourceOf(1)))
	w.rejectedAt("A", Precondition, demote(sourceOf(1))) // it is published there still
	w.okAt("B", demote(sourceOf(1)))
	w.okAt("A", resync(sourceOf(1), false))
	require.Len(t, w.volume(1).Publications(), 1)
}
