package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// testCandidates are p0, p1, ... with decreasing free space, each in a zone of its number modulo 2.
func testCandidates(n int) []poolCandidate {
	var all []poolCandidate
	for i := range n {
		all = append(all, poolCandidate{
			fact:     &fsmpb.PoolFact{PoolId: fmt.Sprintf("p%d", i), FreeBytes: int64(i)},
			topology: fsm.Topology{{Key: "node", Value: fmt.Sprint(i)}, {Key: "zone", Value: fmt.Sprint(i % 2)}},
		})
	}
	return all
}

func topologyTerm(key, value string) *fsmpb.Topology {
	return &fsmpb.Topology{Segments: []*fsmpb.Label{{Key: key, Value: value}}}
}

func TestS25_APlacementCarriesFactsOfTheCandidatesItLooksAtFirst(t *testing.T) {
	for name, tc := range map[string]struct {
		create *fsmpb.CreateVolume
		pools  int
		want   []string
	}{
		"all of a few":                         {&fsmpb.CreateVolume{}, 3, []string{"p0", "p1", "p2"}},
		"those with most room of many":         {&fsmpb.CreateVolume{}, 40, []string{"p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15"}},
		"those within the required terms":      {&fsmpb.CreateVolume{Requisite: []*fsmpb.Topology{topologyTerm("zone", "1")}}, 6, []string{"p1", "p3", "p5"}},
		"any of the required terms will do":    {&fsmpb.CreateVolume{Requisite: []*fsmpb.Topology{topologyTerm("node", "4"), topologyTerm("node", "2")}}, 6, []string{"p2", "p4"}},
		"those of a preferred term come first": {&fsmpb.CreateVolume{Preferred: []*fsmpb.Topology{topologyTerm("node", "3"), topologyTerm("zone", "1")}}, 5, []string{"p3", "p1", "p0", "p2", "p4"}},
		"a preferred one must be allowed too":  {&fsmpb.CreateVolume{Preferred: []*fsmpb.Topology{topologyTerm("node", "2")}, Requisite: []*fsmpb.Topology{topologyTerm("zone", "1")}}, 4, []string{"p1", "p3"}},
		"a term of two segments needs both": {&fsmpb.CreateVolume{Requisite: []*fsmpb.Topology{{Segments: []*fsmpb.Label{
			{Key: "zone", Value: "1"}, {Key: "node", Value: "3"}}}}}, 6, []string{"p3"}},
		"nothing is known": {&fsmpb.CreateVolume{}, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				var got []string
				for _, f := range placementFacts(tc.create.GetRequisite(), tc.create.GetPreferred(), testCandidates(tc.pools)) {
					got = append(got, f.GetPoolId())
				}
				require.Equal(t, tc.want, got)
			}
		})
	}
}

func TestCandidatesAreTheStatesPoolsThatTheirOwnHostsMeasured(t *testing.T) {
	l := newTestState(t)
	for _, node := range []string{"n1", "n2"} {
		l.register(node)
	}
	l.create(volumeID, "v1") // on n1: of equal pools the first
	session := func(node, host string, index uint64, pool *sessionpb.PoolFacts) *sessionpb.SessionFacts {
		return &sessionpb.SessionFacts{NodeId: node, HostId: host, Index: index, Telemetry: &sessionpb.Telemetry{Pools: []*sessionpb.PoolFacts{pool}}}
	}
	got := poolCandidates(l.state, []*sessionpb.SessionFacts{
		session("n1", "host-n1", 3, &sessionpb.PoolFacts{Id: "pool-n1", Free: 30}),
		session("n1", "host-n1", 4, &sessionpb.PoolFacts{Id: "pool-n1", Free: 40}), // newer, of another member
		session("n2", "host-n2", 4, &sessionpb.PoolFacts{Id: "pool-n2", Free: 50, Absent: true}),
		session("n2", "another", 4, &sessionpb.PoolFacts{Id: "pool-n2", Free: 60}),
		session("n2", "host-n2", 4, &sessionpb.PoolFacts{Id: "pool-n1", Free: 70}),
		session("n3", "host-n3", 4, &sessionpb.PoolFacts{Id: "pool-n3", Free: 80}),
	})
	facts := placementFacts(nil, nil, got)
	require.Len(t, facts, 2)
	require.Equal(t, "pool-n2", facts[0].GetPoolId(), "it has more unreserved bytes")
	require.Equal(t, int64(-1), facts[0].GetFreeBytes(), "S12: an absent pool has no room, whatever was measured")
	require.Equal(t, int64(40), facts[1].GetFreeBytes(), "of two measures the newer")
}
