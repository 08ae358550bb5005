package session

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// olderController serves sessions as a build that does not know the question.
func (l *testCluster) olderController() string {
	own := l.credentials(pki.Controller, "older")
	return l.listen(own.Server(pki.Node), func(s *grpc.Server) { sessionpb.RegisterSessionServer(s, sessionpb.UnimplementedSessionServer{}) }).addr
}

// newAskingHost is a host that is registered, and asks the controllers at these addresses.
func (l *testCluster) newAskingHost(endpoints ...string) *testHost {
	n := l.newHost("n1", endpoints...)
	l.t.Cleanup(func() { require.NoError(l.t, n.client.Close()) })
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register("n1")}})
	return n
}

func (m *testMember) maintenance(t *testing.T) (index uint64) {
	t.Helper()
	require.NoError(t, m.View(func(st *fsm.State) error {
		n, _ := st.Node("n1")
		index = n.Maintenance
		return nil
	}))
	return index
}

// A host is told whether it may stop, by any controller, and is recorded as in maintenance only where it may.
func TestAHostAsksWhetherItMayStop(t *testing.T) {
	l := newTestCluster(t, 2)
	n := l.newAskingHost(l.olderController(), l.members[0].api.addr, l.members[1].api.addr)
	ask := func(q RebootQuestion) fsm.StopAnswer {
		t.Helper()
		answer, err := n.client.RebootSafe(t.Context(), q)
		require.NoError(t, err)
		again, err := n.client.RebootSafe(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, []any{answer.Safe, answer.Reasons, answer.Claimed}, []any{again.Safe, again.Reasons, again.Claimed}, "asked twice")
		return answer
	}
	require.True(t, ask(RebootQuestion{}).Safe)
	l.create(volumeID, "v1")
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: register("n1").GetHostId(), BootId: register("n1").GetBootId(), Observations: []*fsmpb.Observation{
		{VolumeId: volumeID, Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}},
	}}}})
	for _, q := range []RebootQuestion{{}, {Claim: true}} {
		answer := ask(q)
		require.False(t, answer.Safe)
		require.Contains(t, answer.Reasons[0], "its only copy is on node n1")
		require.Zero(t, l.members[0].maintenance(t))
	}
	require.Zero(t, ask(RebootQuestion{AllowUnused: true}).Claimed, "to ask claims nothing")
	answer := ask(RebootQuestion{Claim: true, AllowUnused: true})
	require.True(t, answer.Safe)
	require.Equal(t, answer.Claimed, l.members[0].maintenance(t))
	require.NotZero(t, answer.Claimed)
	l.members[0].api.Stop()
	require.Equal(t, answer.Claimed, ask(RebootQuestion{AllowUnused: true}).Claimed, "another controller knows it")
	require.Zero(t, ask(RebootQuestion{Release: true, AllowUnused: true}).Claimed)
}

// Where nobody can tell, the answer is an error that says why.
func TestAHostThatNobodyAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		older bool
		given func(*testMember)
		q     RebootQuestion
		want  string
	}{
		"an older build": {older: true, want: "older build"},
		"no quorum":      {given: func(m *testMember) { m.cluster.quorum.Store(false) }, want: "no leader took the command"},
		"both at once":   {q: RebootQuestion{Claim: true, Release: true}, want: "either a claim or its release"},
		"no controller":  {given: func(m *testMember) { m.api.Stop() }, want: "ask controller"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newTestCluster(t, 1)
			endpoint := l.members[0].api.addr
			if tc.older {
				endpoint = l.olderController()
			}
			n := l.newAskingHost(endpoint)
			if tc.given != nil {
				tc.given(l.members[0])
			}
			for range 2 {
				_, err := n.client.RebootSafe(t.Context(), tc.q)
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
	old := newTestClusterAtLevel(t, 1, fsm.Level2)
	n := old.newAskingHost(old.members[0].api.addr)
	for range 2 {
		_, err := n.client.RebootSafe(t.Context(), RebootQuestion{Claim: true})
		require.ErrorContains(t, err, "feature level 3")
		answer, err := n.client.RebootSafe(t.Context(), RebootQuestion{})
		require.NoError(t, err)
		require.True(t, answer.Safe, "a question needs no level")
	}
}
