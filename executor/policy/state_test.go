package policy

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor/session"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// testState is a cluster of one member with the real state, without listeners.
type testState struct {
	t         *testing.T
	mu        sync.Mutex
	state     *fsm.State
	following bool
}

func newTestState(t *testing.T) *testState {
	t.Helper()
	l := &testState{t: t, state: fsm.New()}
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "one", IncarnationId: []byte("0123456789abcdef"), FeatureLevel: fsm.MaxFeatureLevel,
	}}})
	return l
}

func (l *testState) Propose(_ context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fillCommand(cmd)
	outcome := l.state.Apply(l.state.Cluster().Index+1, cmd).Outcome
	return outcome, fsm.Err(outcome)
}

func (l *testState) View(fn func(*fsm.State) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fn(l.state)
}

func (l *testState) Fork() (*fsm.State, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Fork(), nil
}

func (l *testState) Leading() (uint64, bool) { return 1, !l.following }

// testPoller answers polls with its replies.
type testPoller struct{ session.PollReplies }

func (p *testPoller) Poll(context.Context, bool) (*session.PollReplies, error) {
	return &p.PollReplies, nil
}

// newMonitor watches a cluster of this one member, with these poll replies.
func (l *testState) newMonitor(replies *testPoller, cfg MonitorConfig) *Monitor {
	replies.Voters, replies.AnsweredVoters = 1, 1
	cfg.Member, cfg.Members, cfg.Name, cfg.Logger = l, replies, "a", slog.New(slog.DiscardHandler)
	return NewMonitor(cfg)
}

// mustApply commits a command of an actor that is not rejected.
func (l *testState) mustApply(actor string, cmd *fsmpb.Command) {
	l.t.Helper()
	cmd.Actor = actor
	_, err := l.Propose(l.t.Context(), cmd)
	require.NoError(l.t, err)
}

func fillCommand(cmd *fsmpb.Command) {
	if len(cmd.GetRequestId()) == 0 {
		cmd.RequestId = make([]byte, fsm.RequestIDLen)
		_, _ = rand.Read(cmd.RequestId)
	}
	cmd.SchemaVersion = fsm.LeastLevel(cmd)
}

// register is the registration of a host of that name.
func register(node string) *fsmpb.RegisterNode {
	return &fsmpb.RegisterNode{
		NodeId: node, HostId: "host-" + node, BootId: "boot-1", FeatureLevel: fsm.MaxFeatureLevel, Version: "test",
		Pools: []*fsmpb.Pool{{PoolId: "pool-" + node, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 2000}},
	}
}

const volumeID = "hf-00000000-0000-0000-0000-000000000001"

// create creates a volume; the only reachable host gets it.
func (l *testState) create(id, name string) {
	l.t.Helper()
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: name, Fingerprint: []byte("f"), RequiredBytes: 1 << 30, Replicas: 1,
		Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
	}}})
}

// applyFromNode has a node's own command applied.
func (l *testState) applyFromNode(node string, cmd *fsmpb.Command) {
	l.t.Helper()
	l.mustApply("node/"+node, cmd)
}

// registerReplicating registers a host that holds replicas of replicated volumes.
func (l *testState) registerReplicating(node string) {
	l.t.Helper()
	r := register(node)
	r.Replication = &fsmpb.Replication{Address: "192.0.2.1", PublicKey: make([]byte, 32), Version: "8.4.11", MaxReplicas: 2}
	l.applyFromNode(node, &fsmpb.Command{Body: &fsmpb.Command_RegisterNode{RegisterNode: r}})
}

// reportFacts has a host report facts of the volume.
func (l *testState) reportFacts(node string, facts ...*fsmpb.Observation) {
	l.t.Helper()
	for _, o := range facts {
		o.VolumeId = volumeID
		l.applyFromNode(node, &fsmpb.Command{Body: &fsmpb.Command_Report{Report: &fsmpb.Report{
			NodeId: node, HostId: "host-" + node, BootId: "boot-1", Observations: []*fsmpb.Observation{o}}}})
	}
}

// reportReplica has a host report its replica; both are up to date when it is connected.
func (l *testState) reportReplica(node string, connection fsmpb.ConnectionState) {
	l.t.Helper()
	observed := fsm.ReplicaObservation{
		Boot: "boot-1", Attachment: 1, Connection: connection, Disk: fsmpb.DiskState_DISK_STATE_UP_TO_DATE, UUID: 0x10,
		Generation: l.volume().Replication.Generation,
	}
	if observed.Connected() {
		observed.PeerDisk = fsmpb.DiskState_DISK_STATE_UP_TO_DATE
	}
	l.reportFacts(node, &fsmpb.Observation{Fact: &fsmpb.Observation_ReplicaSeen{ReplicaSeen: observed.Proto()}})
}

func (l *testState) volume() *fsm.Volume {
	l.t.Helper()
	v, ok := l.state.Volume(volumeID)
	require.True(l.t, ok)
	return v
}

// attachReplica attaches a replica that its host created.
func (l *testState) attachReplica(node string) {
	l.t.Helper()
	l.applyFromNode(node, &fsmpb.Command{Body: &fsmpb.Command_AttachReplica{AttachReplica: &fsmpb.AttachReplica{
		VolumeId: volumeID, NodeId: node, HostId: "host-" + node, BootId: "boot-1", Attach: 1}}})
	l.reportFacts(node, &fsmpb.Observation{Fact: &fsmpb.Observation_DeviceCreated{DeviceCreated: &fsmpb.DeviceCreated{SizeBytes: 1 << 30}}})
}

const stateConnected = fsmpb.ConnectionState_CONNECTION_STATE_CONNECTED

// createReplicated creates a replicated volume on n1 and n2, and makes it ready.
func (l *testState) createReplicated() {
	l.t.Helper()
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: volumeID, Name: "v1", RequiredBytes: 1 << 30, Replicas: 2,
		Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
	}}})
	for _, node := range []string{"n1", "n2"} {
		l.attachReplica(node)
	}
	l.reportConnected("n1", "n2")
	require.IsType(l.t, fsm.Ready{}, l.volume().Phase)
}

// reportConnected reports twice: the first report may begin a generation, under which both must report again.
func (l *testState) reportConnected(a, b string) {
	l.t.Helper()
	for range 2 {
		l.reportReplica(a, stateConnected)
		l.reportReplica(b, stateConnected)
	}
}

func (l *testState) setReachable(node string, reachable bool) {
	l.t.Helper()
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_SetNodeReachable{
		SetNodeReachable: &fsmpb.SetNodeReachable{NodeId: node, HostId: "host-" + node, Reachable: reachable}}})
}

func (l *testState) nodeState(node fsm.NodeID) (state fsm.NodeState) {
	l.t.Helper()
	n, ok := l.state.Node(node)
	require.True(l.t, ok)
	return n.State
}
