package session

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// startMonitors runs on every member, quickly.
func (l *testCluster) startMonitors(skewed func(context.Context, time.Duration)) []*Monitor {
	ctx, cancel := context.WithCancel(l.t.Context())
	var running sync.WaitGroup
	l.t.Cleanup(func() { cancel(); running.Wait() })
	var all []*Monitor
	for _, m := range l.members {
		monitor := NewMonitor(MonitorConfig{
			Server: m.server, Name: m.name, NodeTimeout: 400 * time.Millisecond, Interval: 40 * time.Millisecond,
			OnClockSkew: skewed, Logger: slog.New(slog.DiscardHandler),
		})
		all = append(all, monitor)
		running.Go(func() { _ = monitor.Run(ctx) })
	}
	return all
}

func (l *testCluster) nodeState(node fsm.NodeID) (state fsm.NodeState) {
	_ = l.members[0].View(func(s *fsm.State) error {
		if n, ok := s.Node(node); ok {
			state = n.State
		}
		return nil
	})
	return state
}

func TestS25_TheLeaderKnowsASessionThatAnotherMemberHolds(t *testing.T) {
	l := newTestCluster(t, 3)
	monitors := l.startMonitors(nil)
	w := l.openSession(l.members[2], l.credentials(pki.Node, "n1"), &sessionpb.Hello{Register: register("n1")})
	w.nextVolumes()
	w.send(&sessionpb.FromNode{Body: &sessionpb.FromNode_Telemetry{Telemetry: &sessionpb.Telemetry{
		Pools: []*sessionpb.PoolTelemetry{{PoolId: "pool-n1", FreeBytes: 77}},
	}}})
	go func() { _ = w.endError() }() // keeps reading
	eventually(t, "the leader has the facts", func() bool { return len(monitors[0].CachedFacts()) == 1 })
	require.Equal(t, int64(77), monitors[0].CachedFacts()[0].GetFreeBytes())
	require.Empty(t, monitors[1].CachedFacts(), "who does not lead attaches nothing")
	cmd := &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{}}}
	monitors[0].AttachFacts(cmd)
	require.Len(t, cmd.GetCreateVolume().GetFacts(), 1)
	l.create("hf-00000000-0000-4000-8000-000000000001", "one")
	grow := &fsmpb.Command{Body: &fsmpb.Command_ExpandVolume{ExpandVolume: &fsmpb.ExpandVolume{VolumeId: "hf-00000000-0000-4000-8000-000000000001"}}}
	for range 2 {
		monitors[0].AttachFacts(grow)
		require.Len(t, grow.GetExpandVolume().GetFacts(), 1, "of the pool that it is in")
	}
	eventually(t, "the node is recorded as reachable", func() bool { return l.nodeState("n1") == fsm.NodeReachable })

	w.cancel()
	eventually(t, "the node is recorded as unreachable", func() bool { return l.nodeState("n1") == fsm.NodeUnreachable })
	again := l.openSession(l.members[1], l.credentials(pki.Node, "n1"), &sessionpb.Hello{Register: register("n1")})
	again.nextVolumes()
	eventually(t, "the registration says it too", func() bool { return l.nodeState("n1") == fsm.NodeReachable })
}

func TestS25_ANodeThatIsBackIsRecordedAsReachable(t *testing.T) {
	l := newTestCluster(t, 3)
	w := l.openSession(l.members[1], l.credentials(pki.Node, "n1"), &sessionpb.Hello{Register: register("n1")})
	w.nextVolumes()
	go func() { _ = w.endError() }()
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_SetNodeReachable{SetNodeReachable: &fsmpb.SetNodeReachable{NodeId: "n1", HostId: "host-n1"}}})
	require.Equal(t, fsm.NodeUnreachable, l.nodeState("n1"))
	l.startMonitors(nil)
	eventually(t, "the leader sees the session", func() bool { return l.nodeState("n1") == fsm.NodeReachable })
}

func TestS27_TheHookIsCalledOnTheLeaderWhoseClockIsWrong(t *testing.T) {
	l := newTestCluster(t, 3)
	ahead := make(chan time.Duration, 100)
	m := NewMonitor(MonitorConfig{Server: l.members[0].server, Name: "a", Interval: time.Second, Logger: slog.New(slog.DiscardHandler),
		OnClockSkew: func(_ context.Context, d time.Duration) { ahead <- d }})
	m.poll(t.Context())
	require.Empty(t, ahead)
	m.now = func() time.Time { return time.Now().Add(MaxClockSkew + time.Second) }
	m.poll(t.Context())
	require.InDelta(t, MaxClockSkew+time.Second, <-ahead, float64(time.Second))
}

func TestInventoryIsAskedThroughWhicheverMemberHasTheSession(t *testing.T) {
	l := newTestCluster(t, 3)
	monitors := l.startMonitors(nil)
	n := l.startHost("n1", l.members[1])
	eventually(t, "the session is up", n.client.Connected)
	want := []executor.InventoryItem{{Kind: "image", Volume: volumeID, Path: "/pool/volumes/x.img"}, {Kind: "loop", Path: "/dev/loop7"}}
	n.setInventory(func() ([]executor.InventoryItem, error) { return want, nil })
	for i, m := range monitors {
		for range 2 {
			got, err := m.Inventory(t.Context(), "n1")
			require.NoError(t, err)
			require.Equal(t, want, got, "asked at member %d", i)
		}
	}
	t.Run("a long one comes in parts", func(t *testing.T) {
		want = make([]executor.InventoryItem, 2*maxPerMessage+1)
		got, err := monitors[0].Inventory(t.Context(), "n1")
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
	t.Run("nothing is an answer", func(t *testing.T) {
		want = nil
		got, err := monitors[0].Inventory(t.Context(), "n1")
		require.NoError(t, err)
		require.Empty(t, got)
	})
	t.Run("a host that cannot look says why", func(t *testing.T) {
		n.setInventory(func() ([]executor.InventoryItem, error) { return nil, context.DeadlineExceeded })
		for _, m := range monitors {
			_, err := m.Inventory(t.Context(), "n1")
			require.ErrorContains(t, err, "n1 could not say what it holds: context deadline exceeded")
		}
	})
	t.Run("a host without a session is not known", func(t *testing.T) {
		_, err := monitors[0].Inventory(t.Context(), "n9")
		require.ErrorIs(t, err, ErrNoSession)
	})
	t.Run("a host that says nothing is waited for until the deadline", func(t *testing.T) {
		block := make(chan struct{})
		defer close(block)
		n.setInventory(func() ([]executor.InventoryItem, error) { <-block; return nil, nil })
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := monitors[1].Inventory(ctx, "n1")
		require.Equal(t, codes.Unavailable, status.Code(err), err)
	})
}

// Many hosts that are away at once are recorded one after the other: one that registered
// meanwhile is not.
func TestS25_ANodeThatRegistersBeforeItsTurnIsNotRecordedAsUnreachable(t *testing.T) {
	l := newTestCluster(t, 1)
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register("n1")}})
	m := NewMonitor(MonitorConfig{Server: l.members[0].server, Name: "a", NodeTimeout: time.Second, Interval: time.Second, Logger: slog.New(slog.DiscardHandler)})
	pollAfter := func(d time.Duration) (changes []reachabilityChange) {
		x := m.newPollResult(&pollReplies{voters: 1, answeredVoters: 1}, 1, true)
		x.at = x.at.Add(d)
		changes, err := m.applyPoll(&pollReplies{}, x)
		require.NoError(t, err)
		return changes
	}
	require.Empty(t, pollAfter(0))
	changes := pollAfter(2 * time.Second)
	require.Len(t, changes, 1)
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register("n1")}})
	m.proposeReachability(t.Context(), changes)
	require.Equal(t, fsm.NodeReachable, l.nodeState("n1"))

	require.Empty(t, pollAfter(6*time.Second), "it was seen since")
	m.proposeReachability(t.Context(), pollAfter(8*time.Second))
	require.Equal(t, fsm.NodeUnreachable, l.nodeState("n1"), "it is away for as long again")
}
