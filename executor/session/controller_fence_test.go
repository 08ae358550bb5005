package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// S59: a host serves again with a session that begins after its fence, so the one before ends.
func TestS59_ASessionEndsWithItsHostsFence(t *testing.T) {
	l := newTestCluster(t, 1)
	node, r := l.credentials(pki.Node, "n1"), register("n1")
	r.Addresses = []string{"192.0.2.1"}
	l.mustApply("node/n2", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register("n2")}})
	old := l.openSession(l.members[0], node, &sessionpb.Hello{Register: r})
	old.nextVolumes()
	fence := &fsmpb.FenceNetwork{Cidrs: []string{"192.0.2.1/32"}}
	l.mustApply("controller/a", &fsmpb.Command{SchemaVersion: fsm.Level2, Body: &fsmpb.Command_FenceNetwork{FenceNetwork: fence}})
	require.True(t, old.nextVolumes().GetFull(), "what is desired of all of the host may differ")
	l.mustApply("controller/a", &fsmpb.Command{SchemaVersion: fsm.Level2, Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: fence.GetCidrs()}}})
	require.ErrorContains(t, old.endError(), "S59")
	l.openSession(l.members[0], node, &sessionpb.Hello{Register: r}).nextVolumes()
	require.NoError(t, l.members[0].View(func(s *fsm.State) error {
		n, _ := s.Node("n1")
		require.False(t, n.IsFenced())
		return nil
	}))
}
