package session

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// pools are candidates p0, p1, ... with falling room, each in a zone of its number modulo 2.
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
	l := newTestCluster(t, 1)
	for _, node := range []string{"n1", "n2"} {
		l.mustApply("node/"+node, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register(node)}})
	}
	l.create(volumeID, "v1") // on n1: of equal pools the first
	session := func(node, host string, index uint64, pool *sessionpb.PoolTelemetry) *sessionpb.SessionFacts {
		return &sessionpb.SessionFacts{NodeId: node, HostId: host, Index: index, Telemetry: &sessionpb.Telemetry{Pools: []*sessionpb.PoolTelemetry{pool}}}
	}
	got := poolCandidates(l.reference, []*sessionpb.SessionFacts{
		session("n1", "host-n1", 3, &sessionpb.PoolTelemetry{PoolId: "pool-n1", FreeBytes: 30}),
		session("n1", "host-n1", 4, &sessionpb.PoolTelemetry{PoolId: "pool-n1", FreeBytes: 40}), // newer, of another member
		session("n2", "host-n2", 4, &sessionpb.PoolTelemetry{PoolId: "pool-n2", FreeBytes: 50, Absent: true}),
		session("n2", "another", 4, &sessionpb.PoolTelemetry{PoolId: "pool-n2", FreeBytes: 60}),
		session("n2", "host-n2", 4, &sessionpb.PoolTelemetry{PoolId: "pool-n1", FreeBytes: 70}),
		session("n3", "host-n3", 4, &sessionpb.PoolTelemetry{PoolId: "pool-n3", FreeBytes: 80}),
	})
	facts := placementFacts(nil, nil, got)
	require.Len(t, facts, 2)
	require.Equal(t, "pool-n2", facts[0].GetPoolId(), "it has more unreserved bytes")
	require.Equal(t, int64(-1), facts[0].GetFreeBytes(), "S12: an absent pool has no room, whatever was measured")
	require.Equal(t, int64(40), facts[1].GetFreeBytes(), "of two measures the newer")
}

func TestFactsThatCameWithAPlacementAreReplaced(t *testing.T) {
	l := newTestCluster(t, 1)
	m := NewMonitor(MonitorConfig{Server: l.members[0].server, Name: "a"})
	forged := []*fsmpb.PoolFact{{PoolId: "forged"}}
	create := &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{Facts: forged}}}
	add := &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{Facts: forged, NodeId: "2"}}}
	for _, table := range [][]poolCandidate{nil, testCandidates(3)} {
		for i := range table { // as hosts name themselves
			table[i].topology = fsm.Topology{{Key: fsm.TopologyKey, Value: fmt.Sprint(i)}}
		}
		m.candidateTable.Store(&table)
		m.AttachFacts(create)
		m.AttachFacts(add)
		require.Len(t, create.GetCreateVolume().GetFacts(), len(table))
		require.Len(t, add.GetAddReplica().GetFacts(), len(table)/3)
	}
	require.Equal(t, "p2", add.GetAddReplica().GetFacts()[0].GetPoolId(), "of the node that is named")
}

func TestS12_NothingIsPlacedInAPoolThatIsAbsent(t *testing.T) {
	l := newTestCluster(t, 1)
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register("n1")}})
	m := NewMonitor(MonitorConfig{Server: l.members[0].server, Name: "a"})
	for name, tc := range map[string]struct {
		absent bool
		want   fsm.Reason
	}{
		"absent":  {true, fsm.NoCapacity},
		"present": {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			table := poolCandidates(l.reference, []*sessionpb.SessionFacts{{NodeId: "n1", HostId: "host-n1", Index: 2,
				Telemetry: &sessionpb.Telemetry{Pools: []*sessionpb.PoolTelemetry{{PoolId: "pool-n1", FreeBytes: 1 << 40, Absent: tc.absent}}}}})
			m.candidateTable.Store(&table)
			cmd := &fsmpb.Command{Actor: "controller/a", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
				VolumeId: volumeID, Name: "v1", RequiredBytes: 1 << 30, Replicas: 1,
				Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
			}}}
			fillCommand(cmd)
			m.AttachFacts(cmd)
			require.Len(t, m.CachedFacts(), 1)
			outcome := l.reference.Fork().Apply(99, cmd).Outcome
			require.Equal(t, uint32(tc.want), outcome.GetRejection().GetReason(), outcome)
		})
	}
}

// A placement that is proposed while an exchange ends has the facts of that or of the
// one before: without any it would not know that a pool is absent or full.
func TestS25_ALeaderHasFactsAlsoWhileTheyAreReplaced(t *testing.T) {
	l := newTestCluster(t, 1)
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register("n1")}})
	m := NewMonitor(MonitorConfig{Server: l.members[0].server, Name: "a"})
	r := &pollReplies{voters: 1, answeredVoters: 1, sessions: []*sessionpb.SessionFacts{{NodeId: "n1", HostId: "host-n1", Index: 2,
		Telemetry: &sessionpb.Telemetry{Pools: []*sessionpb.PoolTelemetry{{PoolId: "pool-n1", FreeBytes: 1}}}}}}
	take := func(leading bool) error {
		_, err := m.applyPoll(r, m.newPollResult(r, 1, leading))
		return err
	}
	require.NoError(t, take(true))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 20_000 {
			_ = take(true)
		}
	}()
	for looking := true; looking; {
		select {
		case <-ended:
			looking = false
		default:
		}
		require.Len(t, m.CachedFacts(), 1)
	}
	require.NoError(t, take(false))
	require.Empty(t, m.CachedFacts(), "one that does not lead has none")
}
