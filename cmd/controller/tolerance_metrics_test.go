package controller

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// fakeMembers are the members of a configuration, of which this controller is the first.
type fakeMembers struct {
	*fakeState
	members []admin.Member
	quorum  error
}

func (m *fakeMembers) Members(context.Context, uint64) []admin.Member { return m.members }

func (m *fakeMembers) Read(_ context.Context, fn func(*fsm.State) error) (uint64, error) {
	if m.quorum != nil {
		return 0, m.quorum
	}
	return m.index, fn(m.st)
}

func threeVoters() []admin.Member {
	return []admin.Member{{MemberID: "1", Voter: true, Self: true}, {MemberID: "2", Voter: true}, {MemberID: "3", Voter: true}}
}

func TestMetricsOfTolerance(t *testing.T) {
	s := newTwoSites(t)
	m := &fakeMembers{fakeState: s.fakeState, members: threeVoters()}
	c := newToleranceCollector(m.Fork, m.Members)
	want := map[string]float64{
		`holdfast_cluster_failures_tolerated{kind="node"}`: 1, `holdfast_cluster_failures_tolerated{kind="zone"}`: 0, `holdfast_cluster_failures_tolerated{kind="site"}`: 0,
		`holdfast_cluster_failures_tolerated{kind="member"}`:  1,
		`holdfast_cluster_failures_without_loss{kind="node"}`: 1, `holdfast_cluster_failures_without_loss{kind="zone"}`: 0, `holdfast_cluster_failures_without_loss{kind="site"}`: 1,
		`holdfast_cluster_volumes_without_redundancy{kind="replicated"}`: 0, `holdfast_cluster_volumes_without_redundancy{kind="local"}`: 0,
	}
	requireMetrics := func(changes map[string]float64) {
		t.Helper()
		for name, value := range changes {
			want[name] = value
		}
		for range 2 {
			require.Equal(t, want, gatherGauges(t, c))
		}
	}
	s.replicated(1) // a site's role goes to the other one by a promotion only
	requireMetrics(map[string]float64{`holdfast_cluster_failures_tolerated{kind="node"}`: 0})
	m.members[1].Err = errors.New("connection refused")
	requireMetrics(map[string]float64{`holdfast_cluster_failures_tolerated{kind="member"}`: 0})
	s.apply(t, "controller/cA", &fsmpb.Command{Body: &fsmpb.Command_SetNodeReachable{SetNodeReachable: &fsmpb.SetNodeReachable{NodeId: "n3", HostId: "hn3"}}})
	requireMetrics(map[string]float64{`holdfast_cluster_volumes_without_redundancy{kind="replicated"}`: 1,
		`holdfast_cluster_failures_without_loss{kind="node"}`: 0, `holdfast_cluster_failures_without_loss{kind="site"}`: 0})
}

func TestTheStopGateCountsVoters(t *testing.T) {
	for name, tc := range map[string]struct {
		given func(*fakeMembers)
		code  int
		says  string
	}{
		"it may":          {given: func(*fakeMembers) {}, code: http.StatusOK, says: `"subject":"controller c1"`},
		"one is away":     {given: func(m *fakeMembers) { m.members[1].Err = errors.New("refused") }, code: http.StatusConflict, says: "1 of 3 voters would be left that are ready"},
		"one is not well": {given: func(m *fakeMembers) { m.members[2].Trouble = "the disk is full" }, code: http.StatusConflict, says: "a quorum is 2"},
		"no quorum":       {given: func(m *fakeMembers) { m.quorum = errors.New("no leader is known") }, code: http.StatusServiceUnavailable, says: "no leader is known"},
		"no member":       {given: func(m *fakeMembers) { m.members = m.members[1:] }, code: http.StatusServiceUnavailable, says: "is no member"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &fakeMembers{fakeState: newFakeState(t), members: threeVoters()}
			tc.given(m)
			gate := stopGate("c1", m)
			for range 2 {
				w := httptest.NewRecorder()
				gate.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/safe-to-stop", nil))
				require.Equal(t, tc.code, w.Code)
				require.Contains(t, w.Body.String(), tc.says)
			}
		})
	}
}
