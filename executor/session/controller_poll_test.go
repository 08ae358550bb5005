package session

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// newMembers are the queries of each member.
func (l *testCluster) newMembers() (all []*Members) {
	for _, m := range l.members {
		all = append(all, NewMembers(m.server))
	}
	return all
}

func TestAPollListsTheSessionsOfAllMembers(t *testing.T) {
	l := newTestCluster(t, 3)
	w := l.openSession(l.members[2], l.credentials(pki.Node, "n1"), &sessionpb.Hello{Register: register("n1")})
	w.nextVolumes()
	w.send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Telemetry{Telemetry: &sessionpb.Telemetry{
		Pools: []*sessionpb.PoolFacts{{Id: "pool-n1", Free: 77}},
	}}})
	go func() { _ = w.endError() }() // keeps reading
	poll := func(m *Members, withTelemetry bool) *PollReplies {
		r, err := m.Poll(t.Context(), withTelemetry)
		require.NoError(t, err)
		require.Equal(t, 3, r.Voters)
		require.Equal(t, 3, r.AnsweredVoters)
		require.Len(t, r.ClockOffsets, 2)
		require.Len(t, r.Sessions, 1)
		require.Equal(t, "n1", r.Sessions[0].GetNodeId())
		require.Equal(t, "host-n1", r.Sessions[0].GetHostId())
		return r
	}
	for _, m := range l.newMembers() {
		eventually(t, "the telemetry is reported", func() bool { return len(poll(m, true).Sessions[0].GetTelemetry().GetPools()) == 1 })
		require.Equal(t, int64(77), poll(m, true).Sessions[0].GetTelemetry().GetPools()[0].GetFree())
		require.Less(t, poll(m, true).Sessions[0].GetQuietNanos(), int64(time.Minute))
	}
	require.Nil(t, poll(l.newMembers()[0], false).Sessions[0].GetTelemetry(), "of another member's session")
	l.members[1].peers.Stop()
	r, err := l.newMembers()[0].Poll(t.Context(), false)
	require.NoError(t, err)
	require.Equal(t, []int{3, 2}, []int{r.Voters, r.AnsweredVoters})
}

func TestAPollComparesTheMembersClocks(t *testing.T) {
	m := newTestCluster(t, 3).newMembers()[0]
	m.now = func() time.Time { return time.Now().Add(time.Hour) }
	r, err := m.Poll(t.Context(), false)
	require.NoError(t, err)
	require.Len(t, r.ClockOffsets, 2)
	for _, offset := range r.ClockOffsets {
		require.InDelta(t, -time.Hour, offset, float64(time.Minute))
	}
}

func TestPoolsAreListedByEveryMember(t *testing.T) {
	l := newTestCluster(t, 3)
	n := l.startHost("n1", l.members[1])
	eventually(t, "the session is up", n.client.Connected)
	for _, m := range l.newMembers() {
		eventually(t, "the pool is listed", func() bool {
			pools := m.Pools(t.Context())
			return len(pools) == 1 && pools[fsm.PoolID("pool-n1")] == executor.PoolFacts{ID: "pool-n1", Free: 5}
		})
	}
}
