package controller_test

import (
	"testing"

	spec "github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

// ADD-REPL-Promote-06, ADD-REPL-Demote-06, ADD-REPL-Resync-06, ADD-REPL-Disable-06, ADD-REPL-Info-05: while the role moves to a
// site, every call there is ABORTED, and the role moves still.
func TestCallsWhileTheRoleMoves(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	require.NoError(t, w.publishTo(id, "n1"))
	w.setAway(t, "n1", true)
	w.cluster.actAs(t, "B")
	w.hostOf("n2").update(func(h *fakeHost) { h.idle = true })
	held := func(call string) error { return roleCalls[call](w.soon(t), w.roles, roleRequest{volume: id}) }
	requireCode(t, codes.Aborted, held("Promote"))
	moving := w.recorded(id).Relation
	require.NotNil(t, moving.Move)
	for _, call := range []string{"Promote", "Demote", "Resync", "Disable", "Info", "Promote"} {
		requireCode(t, codes.Aborted, held(call))
		require.Equal(t, moving, w.recorded(id).Relation, call)
	}
	w.hostOf("n2").update(func(h *fakeHost) { h.idle = false })
	w.cluster.reconcileHosts()
	require.NoError(t, w.promote(t, ofVolume(id), false))
}

// S46, ADD-REPL-Demote-10: with force and without, what is in use is not demoted, and nothing of it changes.
func TestS46_ForceDemotesNothingThatIsInUse(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	require.NoError(t, w.publishTo(id, "n1"))
	before := w.recorded(id)
	for _, force := range []bool{false, true, false} {
		_, err := w.roles.DemoteVolume(t.Context(), &spec.DemoteVolumeRequest{ReplicationSource: ofVolume(id), Force: force})
		requireCode(t, codes.FailedPrecondition, err)
		require.Equal(t, before, w.recorded(id))
	}
}

// S46, ADD-REPL-Demote-13: what was demoted is published nowhere, and at the other site once that one is promoted.
func TestS46_NobodyUsesWhatWasDemoted(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	require.NoError(t, w.publishTo(id, "n1"))
	require.NoError(t, w.unpublish(t, id, "n1"))
	require.NoError(t, w.demote(t, ofVolume(id)))
	requireCode(t, codes.FailedPrecondition, w.publishTo(id, "n1"))
	w.cluster.actAs(t, "B")
	requireCode(t, codes.FailedPrecondition, w.publishTo(id, "n2"))
	require.NoError(t, w.promote(t, ofVolume(id), false))
	require.NoError(t, w.publishTo(id, "n2"))
}

// S37, ADD-REPL-Disable-10: the replica that was made for the relation is removed, and the one that is in use stays as it is.
func TestS37_DisablingKeepsTheReplicaThatIsUsed(t *testing.T) {
	w := newSites(t)
	id := w.create(t, "plain")
	require.NoError(t, w.enable(t, ofVolume(id)))
	require.NoError(t, w.publishTo(id, "n1"))
	for range 2 {
		require.NoError(t, w.disable(t, ofVolume(id)))
	}
	w.cluster.reconcileHosts()
	v := w.recorded(id)
	require.Nil(t, v.Relation)
	require.Len(t, v.Replicas, 1, "replicas after the end of the replication")
	require.Equal(t, "n1", string(v.Replicas[0].Node))
	require.NotNil(t, v.Publication("n1"))
	_, err := w.info(t, ofVolume(id))
	requireCode(t, codes.FailedPrecondition, err)
	require.NoError(t, w.cluster.state.Check())
}

// ADD-REPL-Promote-12: what is primary is promoted again by nothing that is recorded.
func TestAPrimaryIsPromotedOnce(t *testing.T) {
	w := newSites(t)
	id := w.replicated(t, "v")
	before := w.recorded(id)
	for _, force := range []bool{false, true, false} {
		require.NoError(t, w.promote(t, ofVolume(id), force))
		require.Equal(t, before.Modified, w.recorded(id).Modified, "it is no new promotion")
		require.Equal(t, before, w.recorded(id))
	}
}

// S48, S51, ADD-REPL-Resync-14, -15: what was given up is discarded once; a repetition begins nothing anew.
func TestS51_ARepeatedResyncBeginsNothingAnew(t *testing.T) {
	w := newSites(t)
	id := w.behind(t)
	require.NoError(t, w.promote(t, ofVolume(id), true))
	require.NoError(t, w.publishTo(id, "n2"))
	w.setAway(t, "n1", false)
	w.cluster.site = "A"
	require.NoError(t, w.demote(t, ofVolume(id)))
	w.hostOf("n1").update(func(h *fakeHost) { h.idle = true })
	_, err := w.resync(t, ofVolume(id), true, "keep", "false")
	require.NoError(t, err)
	begun := w.recorded(id).Replication.Generation
	for range 3 {
		ready, err := w.resync(t, ofVolume(id), true, "keep", "false")
		require.NoError(t, err)
		require.False(t, ready)
		require.Equal(t, begun, w.recorded(id).Replication.Generation, "a repetition begins nothing anew")
	}
	w.hostOf("n1").update(func(h *fakeHost) { h.idle = false })
	w.cluster.reconcileHosts()
	w.cluster.reconcileHosts()
	for range 3 {
		ready, err := w.resync(t, ofVolume(id), true, "keep", "false")
		require.NoError(t, err)
		require.True(t, ready, "A has what B has")
	}
	require.False(t, w.recorded(id).RelationMember.Apart)
}
