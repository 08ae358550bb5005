package admin

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// A revocation that is newer than the backup is shown and taken in, once, however many hosts remember it; one that
// would leave no quorum is refused and keeps nothing else back.
func TestAdoptTakesInWhatHostsRememberOfRevocations(t *testing.T) {
	w := newReplicatedEnv(t, "n1", "n2")
	w.restore(w.state.Fork())
	until := w.state.Cluster().Time.UnixNano()
	stolen := &fsmpb.RevokeIdentity{Role: "admin", Name: "mallory", Serials: []string{"5e"}, IssuedUntil: until, Reason: "stolen"}
	w.remembered = map[fsm.NodeID][]*fsmpb.RevokeIdentity{"n1": {stolen}, "n2": {stolen, {Role: "admin", Name: "mallory", Serials: []string{"5e"}}}}

	plan := w.plan(adoptRequest(2))
	require.Equal(t, []string{"todo revoke @n1", "todo adopt-node @n1", "todo adopt-node @n2"}, planText(plan))
	require.Contains(t, plan.GetSteps()[0].GetDetail(), "admin/mallory")
	require.Contains(t, plan.GetSteps()[0].GetDetail(), "stolen")
	w.carryOutAdoption(adoptRequest(2))
	r, known := w.state.Revocation("admin", "mallory")
	require.True(t, known)
	require.Equal(t, []string{"5e"}, r.Serials)
	require.Equal(t, until, r.IssuedUntil.UnixNano())
	require.True(t, w.plan(adoptRequest(2)).GetDone(), "also while the host has not been told yet")
	w.carryOutAdoption(adoptRequest(2))

	w.remembered["n1"] = append(w.remembered["n1"], &fsmpb.RevokeIdentity{Role: "controller", Name: "c1", IssuedUntil: until, Reason: "stolen"})
	plan = w.plan(adoptRequest(2))
	require.Equal(t, []string{"blocked revoke @n1", "done adopt-node @n1", "done adopt-node @n2"}, planText(plan))
	require.Contains(t, plan.GetSteps()[0].GetDetail(), "no quorum")
}
