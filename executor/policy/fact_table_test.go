package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestFactsThatCameWithAPlacementAreReplaced(t *testing.T) {
	l := newTestState(t)
	m := l.newMonitor(&testPoller{}, MonitorConfig{})
	forged := []*fsmpb.PoolFact{{PoolId: "forged"}}
	create := &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{Facts: forged}}}
	add := &fsmpb.Command{Body: &fsmpb.Command_AddReplica{AddReplica: &fsmpb.AddReplica{Facts: forged, NodeId: "2"}}}
	for _, table := range [][]poolCandidate{nil, testCandidates(3)} {
		for i := range table { // as hosts name themselves
			table[i].topology = fsm.Topology{{Key: fsm.TopologyKey, Value: fmt.Sprint(i)}}
		}
		m.facts.replace(table)
		m.facts.Attach(create)
		m.facts.Attach(add)
		require.Len(t, create.GetCreateVolume().GetFacts(), len(table))
		require.Len(t, add.GetAddReplica().GetFacts(), len(table)/3)
	}
	require.Equal(t, "p2", add.GetAddReplica().GetFacts()[0].GetPoolId(), "of the node that is named")
}

func TestS12_NothingIsPlacedInAPoolThatIsAbsent(t *testing.T) {
	l := newTestState(t)
	l.register("n1")
	m := l.newMonitor(&testPoller{}, MonitorConfig{})
	for name, tc := range map[string]struct {
		absent bool
		want   fsm.Reason
	}{
		"absent":  {true, fsm.NoCapacity},
		"present": {false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			table := poolCandidates(l.state, []*sessionpb.SessionFacts{{NodeId: "n1", HostId: "host-n1", Index: 2,
				Telemetry: &sessionpb.Telemetry{Pools: []*sessionpb.PoolFacts{{Id: "pool-n1", Free: 1 << 40, Absent: tc.absent}}}}})
			m.facts.replace(table)
			cmd := &fsmpb.Command{Actor: "controller/a", Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
				VolumeId: volumeID, Name: "v1", RequiredBytes: 1 << 30, Replicas: 1,
				Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
			}}}
			fillCommand(cmd)
			m.facts.Attach(cmd)
			require.Len(t, m.facts.current(), 1)
			outcome := l.state.Fork().Apply(99, cmd).Outcome
			require.Equal(t, uint32(tc.want), outcome.GetRejection().GetReason(), outcome)
		})
	}
}

// A placement that is proposed while the table is replaced has the facts of the new poll or of the
// one before: without any it would not know that a pool is absent or full.
func TestS25_ALeaderHasFactsAlsoWhileTheyAreReplaced(t *testing.T) {
	l := newTestState(t)
	l.register("n1")
	m := l.newMonitor(&testPoller{}, MonitorConfig{})
	r := &session.PollReplies{Voters: 1, AnsweredVoters: 1, Sessions: []*sessionpb.SessionFacts{sessionOf("n1", 1)}}
	take := func() error {
		_, err := m.applyPoll(r, newPollResult(m.now(), r, 1, true))
		return err
	}
	require.NoError(t, take())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 20_000 {
			_ = take()
		}
	}()
	for looking := true; looking; {
		select {
		case <-ended:
			looking = false
		default:
		}
		require.Len(t, m.facts.current(), 1)
	}
}
