package policy

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// sessionOf a host whose pool has that many bytes free.
func sessionOf(node string, free int64) *sessionpb.SessionFacts {
	return &sessionpb.SessionFacts{NodeId: node, HostId: "host-" + node, Index: 2,
		Telemetry: &sessionpb.Telemetry{Pools: []*sessionpb.PoolFacts{{Id: "pool-" + node, Free: free}}}}
}

func (l *testState) register(node string) {
	l.t.Helper()
	l.applyFromNode(node, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register(node)}})
}

// pollAfter polls when that time has passed.
func (m *Monitor) pollAfter(ctx context.Context, passed time.Duration) {
	at := m.now().Add(passed)
	m.now = func() time.Time { return at }
	m.poll(ctx)
}

func TestS25_TheLeaderKnowsASessionThatAnotherMemberHolds(t *testing.T) {
	l := newTestState(t)
	l.register("n1")
	replies := &testPoller{session.PollReplies{Sessions: []*sessionpb.SessionFacts{sessionOf("n1", 77)}}}
	leader := l.newMonitor(replies, MonitorConfig{})
	leader.pollAfter(t.Context(), 0)
	require.Len(t, leader.facts.current(), 1)
	require.Equal(t, int64(77), leader.facts.current()[0].fact.GetFreeBytes())
	cmd := &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{}}}
	leader.Facts().Attach(cmd)
	require.Len(t, cmd.GetCreateVolume().GetFacts(), 1)
	l.create(volumeID, "one")
	expand := &fsmpb.Command{Body: &fsmpb.Command_ExpandVolume{ExpandVolume: &fsmpb.ExpandVolume{VolumeId: volumeID}}}
	for range 2 {
		leader.Facts().Attach(expand)
		require.Len(t, expand.GetExpandVolume().GetFacts(), 1, "of the pool that it is in")
	}
	require.Equal(t, fsm.NodeReachable, l.nodeState("n1"))

	replies.Sessions = nil
	for range 10 { // the first of them begins the outage
		leader.pollAfter(t.Context(), time.Second)
	}
	require.Equal(t, fsm.NodeReachable, l.nodeState("n1"), "not before the node timeout")
	leader.pollAfter(t.Context(), time.Second)
	require.Equal(t, fsm.NodeUnreachable, l.nodeState("n1"))
	l.register("n1")
	require.Equal(t, fsm.NodeReachable, l.nodeState("n1"), "a registration shows it too")
}

func TestS25_AMemberThatDoesNotLeadProposesNothing(t *testing.T) {
	l := newTestState(t)
	l.following = true
	l.register("n1")
	replies := &testPoller{session.PollReplies{Sessions: []*sessionpb.SessionFacts{sessionOf("n1", 77)}}}
	m := l.newMonitor(replies, MonitorConfig{})
	m.pollAfter(t.Context(), 0)
	require.Empty(t, m.facts.current())
	replies.Sessions = nil
	for range 20 {
		m.pollAfter(t.Context(), time.Second)
	}
	require.Equal(t, fsm.NodeReachable, l.nodeState("n1"))
	l.following = false
	m.pollAfter(t.Context(), time.Second)
	require.Equal(t, fsm.NodeUnreachable, l.nodeState("n1"), "once it leads, what it counted before counts")
}

func TestS25_ANodeThatIsBackIsRecordedAsReachable(t *testing.T) {
	l := newTestState(t)
	l.register("n1")
	l.setReachable("n1", false)
	require.Equal(t, fsm.NodeUnreachable, l.nodeState("n1"))
	m := l.newMonitor(&testPoller{session.PollReplies{Sessions: []*sessionpb.SessionFacts{sessionOf("n1", 0)}}}, MonitorConfig{})
	m.pollAfter(t.Context(), 0)
	require.Equal(t, fsm.NodeReachable, l.nodeState("n1"))
}

func TestS27_TheHookIsCalledOnTheLeaderWhoseClockIsWrong(t *testing.T) {
	var ahead []time.Duration
	l, replies := newTestState(t), &testPoller{}
	m := l.newMonitor(replies, MonitorConfig{OnClockSkew: func(_ context.Context, d time.Duration) { ahead = append(ahead, d) }})
	replies.ClockOffsets = []time.Duration{-MaxClockSkew, -MaxClockSkew}
	m.poll(t.Context())
	require.Empty(t, ahead)
	replies.ClockOffsets = []time.Duration{-MaxClockSkew - 1, -MaxClockSkew - 1}
	m.poll(t.Context())
	require.Equal(t, []time.Duration{MaxClockSkew + 1}, ahead)
	l.following = true
	replies.ClockOffsets = []time.Duration{time.Second, 2 * time.Second}
	m.poll(t.Context())
	require.Len(t, ahead, 1, "only a leader's clock stamps entries")
	require.Equal(t, -time.Second, m.ClockAhead(), "every member measures its own")
}

// Many hosts that are unreachable at once are recorded one after the other: one that registered
// meanwhile is not.
func TestS25_ANodeThatRegistersBeforeItsTurnIsNotRecordedAsUnreachable(t *testing.T) {
	l := newTestState(t)
	l.register("n1")
	m := l.newMonitor(&testPoller{}, MonitorConfig{NodeTimeout: time.Second})
	start := time.Now()
	pollAt := func(d time.Duration) []reachabilityChange {
		r := &session.PollReplies{Voters: 1, AnsweredVoters: 1}
		changes, err := m.applyPoll(r, newPollResult(start.Add(d), r, 1, true))
		require.NoError(t, err)
		return changes
	}
	require.Empty(t, pollAt(0))
	changes := pollAt(2 * time.Second)
	require.Len(t, changes, 1)
	l.register("n1")
	m.proposeReachability(t.Context(), changes)
	require.Equal(t, fsm.NodeReachable, l.nodeState("n1"))

	require.Empty(t, pollAt(6*time.Second), "it registered since then")
	m.proposeReachability(t.Context(), pollAt(8*time.Second))
	require.Equal(t, fsm.NodeUnreachable, l.nodeState("n1"), "it had no session for as long again")
}

// CSI's GetCapacity is answered by any member.
func TestPollFactsWorksOnEveryMember(t *testing.T) {
	l := newTestState(t)
	l.following = true
	l.register("n1")
	m := l.newMonitor(&testPoller{session.PollReplies{Sessions: []*sessionpb.SessionFacts{sessionOf("n1", 5), sessionOf("n2", 6)}}}, MonitorConfig{})
	facts := m.Facts().PollFacts(t.Context())
	require.Len(t, facts, 1, "of pools that the state knows")
	require.Equal(t, "pool-n1", facts[0].GetPoolId())
	require.Equal(t, int64(5), facts[0].GetFreeBytes())
	require.Empty(t, m.facts.current())
}

// unreachablePoller is of a member that reaches no other.
type unreachablePoller struct{}

func (unreachablePoller) Poll(context.Context, bool) (*session.PollReplies, error) {
	return nil, errors.New("no member answers")
}

func TestS25_ALeaderThatWasDeposedForgetsWhatItMeasured(t *testing.T) {
	l := newTestState(t)
	l.register("n1")
	m := l.newMonitor(&testPoller{session.PollReplies{Sessions: []*sessionpb.SessionFacts{sessionOf("n1", 77)}}}, MonitorConfig{})
	m.pollAfter(t.Context(), 0)
	require.NotEmpty(t, m.facts.current())
	l.following, m.Members = true, unreachablePoller{}
	m.pollAfter(t.Context(), time.Second)
	require.Empty(t, m.facts.current())
}
