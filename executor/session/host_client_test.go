package session

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// testHost is a host's end under test.
type testHost struct {
	client *Client

	mu            sync.Mutex
	updates       []executor.Update
	inventory     func() (executor.Inventory, error)
	deadline      time.Time // of the last listing
	readMapFunc   mapFunc
	volumeFunc    volumeFunc
	replicaFunc   replicaFunc
	epoch         fsm.Epoch
	incarnationID []byte
}

func (n *testHost) handle(u executor.Update) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.updates = append(n.updates, u)
	if u.Adopted {
		n.epoch, n.incarnationID = u.At, u.IncarnationID
	}
}

func (n *testHost) actedEpoch() (fsm.Epoch, []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.epoch, n.incarnationID
}

func (n *testHost) received() []executor.Update {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]executor.Update(nil), n.updates...)
}

func (n *testHost) setInventory(inventory func() (executor.Inventory, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.inventory = inventory
}

func (n *testHost) listInventory(ctx context.Context) (executor.Inventory, error) {
	n.mu.Lock()
	n.deadline, _ = ctx.Deadline()
	inventory := n.inventory
	n.mu.Unlock()
	return inventory()
}

func (n *testHost) readMap(ctx context.Context, base, target fsm.SnapshotID, from int64, max int) (executor.MapPage, error) {
	n.mu.Lock()
	fn := n.readMapFunc
	n.mu.Unlock()
	return fn(ctx, base, target, from, max)
}

// startHost starts a host that knows these controllers, in this order.
func (l *testCluster) startHost(name string, controllers ...*testMember) *testHost {
	l.t.Helper()
	var endpoints []string
	for _, m := range controllers {
		endpoints = append(endpoints, m.api.addr)
	}
	n := l.newHost(name, endpoints...)
	n.run(l.t)
	return n
}

func (l *testCluster) newHost(name string, endpoints ...string) *testHost {
	l.t.Helper()
	return l.newHostWith(l.credentials(pki.Node, name), name, endpoints...)
}

func (l *testCluster) newHostWith(creds *pki.Credentials, name string, endpoints ...string) *testHost {
	l.t.Helper()
	n := &testHost{}
	client, err := NewClient(ClientConfig{
		Endpoints: endpoints, Credentials: creds,
		Register:   func() *fsmpb.RegisterNode { return register(name) },
		ActedEpoch: n.actedEpoch, Handle: n.handle,
		Telemetry:         func() []executor.PoolFacts { return []executor.PoolFacts{{ID: fsm.PoolID("pool-" + name), Free: 5}} },
		TelemetryInterval: 10 * time.Millisecond,
		Inventory:         n.listInventory,
		Candidates:        n.listInventory,
		Map:               n.readMap,
		VolumeFacts:       n.volumeFacts,
		ReplicaNow:        n.replicaNow,
		ProposeTimeout:    time.Minute, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(l.t, err)
	client.timing, client.currentEndpoint = testTiming, 0
	n.client = client
	return n
}

func (n *testHost) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = n.client.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; require.NoError(t, n.client.Close()) })
}

func TestAClientKeepsASessionWithAnyController(t *testing.T) {
	l := newTestCluster(t, 3)
	n := l.startHost("n1", l.members...)
	require.False(t, n.client.Connected() && len(n.received()) == 0)
	eventually(t, "the session is up", n.client.Connected)
	l.create(volumeID, "v1")
	eventually(t, "the desired state arrives", func() bool { u := n.received(); return len(u[len(u)-1].Volumes) == 1 })
	first := n.received()[0]
	require.True(t, first.Full)
	require.True(t, first.Adopted)
	eventually(t, "the telemetry arrives", func() bool {
		f := l.members[0].server.sessionFacts()
		return len(f) == 1 && f[0].GetTelemetry().GetPools()[0].GetFree() == 5
	})

	for left := l.members; len(left) > 1; {
		at := slices.IndexFunc(left, func(m *testMember) bool { return m.server.Sessions() == 1 })
		left[at].api.Stop()
		left = slices.Delete(slices.Clone(left), at, at+1)
		eventually(t, "another controller has the session", func() bool {
			return n.client.Connected() && slices.ContainsFunc(left, func(m *testMember) bool { return m.server.Sessions() == 1 })
		})
		last := n.received()[len(n.received())-1]
		require.True(t, last.Full)
		require.Equal(t, fsm.VolumeID(volumeID), last.Volumes[0].Volume)
	}
	for _, m := range l.members {
		m.api.Stop()
	}
	eventually(t, "without controllers there is no session", func() bool { return !n.client.Connected() })
	require.ErrorContains(t, n.client.Err(), "session with controller")
	for i, u := range n.received()[1:] {
		require.GreaterOrEqual(t, u.At.Compare(n.received()[i].At), 0, "updates never go back")
	}
}

func TestAHostSendsHeartbeatsWhileTelemetryBlocks(t *testing.T) {
	l := newTestCluster(t, 1)
	n := l.newHost("n1", l.members[0].api.addr)
	hangs := make(chan struct{})
	t.Cleanup(func() { close(hangs) })
	n.client.Telemetry = func() []executor.PoolFacts { <-hangs; return nil }
	n.run(t)
	silentFor := func() time.Duration {
		facts := l.members[0].server.sessionFacts()
		if len(facts) == 0 {
			return time.Hour
		}
		return time.Duration(facts[0].GetQuietNanos())
	}
	eventually(t, "the session is up", n.client.Connected)
	eventually(t, "no message for a moment", func() bool { return silentFor() > testTiming.heartbeat/2 })
	eventually(t, "and then one", func() bool { return silentFor() < testTiming.heartbeat/4 })
}

func TestS14_AClientLeavesAControllerThatLags(t *testing.T) {
	l := newTestCluster(t, 2)
	l.members[0].setLag(true)
	n := l.newHost("n1", l.members[0].api.addr, l.members[1].api.addr)
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register("n1")}})
	l.create(volumeID, "v1")
	n.epoch = fsm.Epoch{Incarnation: 1, Index: 3}
	n.run(t)
	eventually(t, "the other controller has the session", func() bool { return l.members[1].server.Sessions() == 1 && n.client.Connected() })
	for _, u := range n.received() {
		require.Len(t, u.Volumes, 1, "a state without the volume was never sent")
	}
}

// scriptedController sends the given messages, and then nothing.
type scriptedController struct {
	sessionpb.UnimplementedSessionServer
	script []*sessionpb.ToNode
}

func (c *scriptedController) Attach(stream sessionpb.Session_AttachServer) error {
	for _, m := range c.script {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return nil
}

func (c *scriptedController) Propose(ctx context.Context, _ *sessionpb.ProposeRequest) (*sessionpb.ProposeResponse, error) {
	<-ctx.Done()
	return nil, status.FromContextError(ctx.Err()).Err()
}

// start returns its address.
func (c *scriptedController) start(l *testCluster) string {
	own := l.credentials(pki.Controller, "careless")
	return l.listen(own.Server(pki.Node), func(s *grpc.Server) { sessionpb.RegisterSessionServer(s, c) }).addr
}

func TestAClientLeavesAControllerThatIsSilentOrWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		say  []*sessionpb.ToNode
		want string
		told int
		// How long the first message may take.
		first time.Duration
	}{
		"that says nothing": {nil, errSilent.Error(), 0, shortPeerTimeout},
		"that goes silent":  {[]*sessionpb.ToNode{welcomeMessage(1, "id"), desiredMessage(&sessionpb.DesiredState{Full: true, At: protoEpoch(1, 9), Adopted: true})}, errSilent.Error(), 1, time.Minute},
		"S14: whose state is older than what was acted on, and that does not say so": {
			[]*sessionpb.ToNode{welcomeMessage(1, "id"), desiredMessage(&sessionpb.DesiredState{Full: true, At: protoEpoch(1, 4)})}, "S14", 0, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newTestCluster(t, 0)
			n := l.newHost("n1", (&scriptedController{script: tc.say}).start(l))
			n.epoch = fsm.Epoch{Incarnation: 1, Index: 5}
			n.client.timing.catchUpTimeout, n.client.timing.registerTimeout, n.client.timing.peerTimeout = tc.first, 0, tc.first
			n.client.Handle = func(u executor.Update) {
				n.handle(u)
				n.client.timing.peerTimeout = shortPeerTimeout // from here on nothing comes
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			delivered, err := n.client.runSession(ctx, 0)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, tc.told == 1, delivered)
			require.Len(t, n.received(), tc.told)
			require.NoError(t, n.client.Close())
		})
	}
}

func TestS1_AHostRegistersWithTheIncarnationItActedFor(t *testing.T) {
	l := newTestCluster(t, 1)
	n := l.newHost("n1", l.members[0].api.addr)
	n.client.Register = func() *fsmpb.RegisterNode {
		r := register("n1")
		r.Incarnation = 7 // known, but the host is not adopted by it
		return r
	}
	n.run(t)
	eventually(t, "the session is up", n.client.Connected)
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Zero(t, l.log[1].GetRegisterNode().GetIncarnation())
}

func TestProposeGoesToAnyControllerWithOneRequestID(t *testing.T) {
	l := newTestCluster(t, 3)
	report := &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "host-n1", BootId: "boot-1"}}}
	n := l.startHost("n1", l.members...)
	eventually(t, "the session is up", n.client.Connected)
	eventually(t, "the last controller is reached", func() bool {
		n.client.conns[2].Connect()
		return n.client.conns[2].GetState() == connectivity.Ready
	})
	l.members[0].failProposals.Store(true)
	l.members[1].api.Stop()
	before := len(l.members[0].requests())
	for range 2 {
		_, err := n.client.Propose(t.Context(), report)
		require.NoError(t, err)
	}
	first, second := l.members[0].requests()[before:], l.members[2].requests()
	require.Len(t, first, 2, "the session's controller is asked first")
	require.Equal(t, first, second, "the request id is the same at the next")
	require.NotEqual(t, first[0], first[1], "two proposals have two")
	require.Empty(t, report.GetRequestId(), "the caller's command is left alone")
	require.NotZero(t, l.log[len(l.log)-1].GetProposedIndex(), "where it was first proposed is the host's to say (S4)")
}

func TestS4_ARetriedProposalKeepsItsRequestIDAndFirstIndex(t *testing.T) {
	l := newTestCluster(t, 1)
	n := l.startHost("n1", l.members[0])
	eventually(t, "the session is up", n.client.Connected)
	report := &fsmpb.Command{RequestId: []byte("one question-16b"),
		Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "host-n1", BootId: "boot-1"}}}
	l.members[0].failProposals.Store(true)
	require.True(t, isUnavailable(n.proposeBriefly(report)))
	first := n.client.openProposals[string(report.GetRequestId())]
	require.NotZero(t, first)
	l.create(volumeID, "v1") // the log grows meanwhile
	eventually(t, "the host hears of it", func() bool { n.client.mu.Lock(); defer n.client.mu.Unlock(); return n.client.controllerIndex > first })
	l.members[0].failProposals.Store(false)
	var outcomes []*fsmpb.Outcome
	for range 2 {
		outcome, err := n.client.Propose(t.Context(), report)
		require.NoError(t, err)
		outcomes = append(outcomes, outcome)
		if len(outcomes) == 1 {
			require.Equal(t, first, l.log[len(l.log)-1].GetProposedIndex())
		}
	}
	require.Equal(t, outcomes[0].GetIndex(), outcomes[1].GetIndex(), "S7: the first answer")
}

func TestProposeSaysWhyItFailed(t *testing.T) {
	l := newTestCluster(t, 2)
	n := l.newHost("n1", l.members[0].api.addr, l.members[1].api.addr)
	t.Cleanup(func() { require.NoError(t, n.client.Close()) })
	own := &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "nobody", BootId: "b"}}}
	t.Run("a rejection, beside its outcome", func(t *testing.T) {
		for range 2 {
			outcome, err := n.client.Propose(t.Context(), own)
			var rejection *fsm.Rejection
			require.ErrorAs(t, err, &rejection)
			require.Equal(t, outcome.GetRejection().GetReason(), uint32(rejection.Reason))
		}
	})
	t.Run("a refusal is final", func(t *testing.T) {
		_, err := n.client.Propose(t.Context(), &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n2"}}})
		require.Equal(t, codes.PermissionDenied, status.Code(err))
		require.False(t, isUnavailable(err))
	})
	t.Run("S28: no quorum is unavailable, soon", func(t *testing.T) {
		l.quorum.Store(false)
		defer l.quorum.Store(true)
		begin := time.Now()
		err := n.proposeBriefly(own)
		require.True(t, isUnavailable(err), err)
		require.Less(t, time.Since(begin), time.Minute)
		require.NotContains(t, err.Error(), "\n")
	})
	t.Run("no controller is unavailable", func(t *testing.T) {
		for _, m := range l.members {
			m.api.Stop()
		}
		err := n.proposeBriefly(own)
		require.True(t, isUnavailable(err), err)
	})
}

// proposeBriefly proposes what no controller takes.
func (n *testHost) proposeBriefly(cmd *fsmpb.Command) error {
	defer func(usual time.Duration) { n.client.ProposeTimeout = usual }(n.client.ProposeTimeout)
	n.client.ProposeTimeout = 100 * time.Millisecond
	_, err := n.client.Propose(context.Background(), cmd)
	return err
}

func isUnavailable(err error) bool {
	var u interface{ Unavailable() bool }
	return errors.As(err, &u) && u.Unavailable()
}

func TestProposeSucceedsBesideAControllerThatHangs(t *testing.T) {
	l := newTestCluster(t, 1)
	n := l.newHost("n1", (&scriptedController{}).start(l), l.members[0].api.addr)
	n.client.timing.hedgeDelay = 10 * time.Millisecond
	t.Cleanup(func() { require.NoError(t, n.client.Close()) })
	l.mustApply("node/n1", &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: register("n1")}})
	_, err := n.client.Propose(t.Context(), &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{NodeId: "n1", HostId: "host-n1", BootId: "boot-1"}}})
	require.NoError(t, err)
}

func TestBackoffIsShortUntilAllControllersWereTried(t *testing.T) {
	c := &Client{ClientConfig: ClientConfig{Jitter: rand.N[time.Duration]}, conns: make([]Conn, 3)}
	for failures, longest := range map[int]time.Duration{0: 100, 2: 100, 3: 200, 8: 400, 11: 800, 12: 1000, 1000: 1000} {
		for range 100 {
			d := c.reconnectBackoff(failures)
			require.LessOrEqual(t, d, longest*time.Millisecond)
			require.GreaterOrEqual(t, d, longest*time.Millisecond/2)
		}
	}
}

func TestAClientNeedsAController(t *testing.T) {
	_, err := NewClient(ClientConfig{})
	require.ErrorContains(t, err, "at least one controller")
}
