package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// testTiming has short intervals and long timeouts, so that tests are fast and no session is dropped
// on a busy machine. Tests of silence set shortPeerTimeout, and those of what hangs a shorter hedgeDelay.
var testTiming = timing{
	heartbeat: 20 * time.Millisecond, peerTimeout: time.Minute, helloTimeout: time.Minute,
	catchUpTimeout: 100 * time.Millisecond, registerTimeout: time.Minute, connectTimeout: time.Minute, hedgeDelay: time.Minute,
}

const shortPeerTimeout = 200 * time.Millisecond

// testCluster is a cluster of controllers around one log, with real listeners, real
// certificates and the real state; only Raft is simulated.
type testCluster struct {
	t   *testing.T
	ca  string
	mu  sync.Mutex
	log []*fsmpb.Command
	// reference has applied the whole log.
	reference *fsm.State
	members   []*testMember
	quorum    atomic.Bool
}

// testMember is a simulated Raft member with the services of this package.
type testMember struct {
	cluster *testCluster
	id      int
	name    string

	mu         sync.Mutex
	state      *fsm.State
	lag        bool
	applied    chan struct{} // closed and replaced at each apply
	watches    map[*watch]bool
	requestIDs [][]byte // request ids that were proposed here

	ready         atomic.Pointer[error]
	failProposals atomic.Bool          // proposals fail here
	committed     func(*fsmpb.Command) // called when a command of this member was committed; guarded by mu
	server        *Server
	api           *listener
	peers         *listener
	dialed        map[int]*grpc.ClientConn
}

type watch struct {
	node    fsm.NodeID
	wake    chan struct{}
	changes []fsm.Change
	all     bool
}

type listener struct {
	addr string
	*grpc.Server
}

func newTestCluster(t *testing.T, members int) *testCluster {
	t.Helper()
	return newTestClusterAtLevel(t, members, fsm.MaxFeatureLevel)
}

// newTestClusterAtLevel is a cluster with a feature level.
func newTestClusterAtLevel(t *testing.T, members int, level uint32) *testCluster {
	t.Helper()
	l := &testCluster{t: t, reference: fsm.New(), ca: filepath.Join(t.TempDir(), "ca")}
	require.NoError(t, pki.MakeCA(l.ca, "one"))
	l.quorum.Store(true)
	for i := range members {
		m := &testMember{cluster: l, id: i, name: string(rune('a' + i)), state: fsm.New(), applied: make(chan struct{}), watches: map[*watch]bool{}, dialed: map[int]*grpc.ClientConn{}}
		m.server = NewServer(m, slog.New(slog.DiscardHandler))
		m.server.timing = testTiming
		l.members = append(l.members, m)
		m.serve()
	}
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "one", IncarnationId: []byte("0123456789abcdef"), FeatureLevel: level,
	}}})
	return l
}

func (l *testCluster) credentials(role pki.Role, name string) *pki.Credentials {
	l.t.Helper()
	files, err := pki.Issue(l.ca, filepath.Join(l.t.TempDir(), "out"), pki.Identity{Role: role, Name: name}, time.Hour)
	require.NoError(l.t, err)
	c, err := pki.Load(files)
	require.NoError(l.t, err)
	return c
}

func (m *testMember) serve() {
	own := m.cluster.credentials(pki.Controller, m.name)
	m.api = m.cluster.listen(own.Server(pki.Controller, pki.Node, pki.Admin, pki.Viewer), m.registerSession, patientKeepalive)
	m.peers = m.cluster.listen(own.Server(pki.Controller, pki.Node), func(s *grpc.Server) { m.server.RegisterPeers(s) }, patientKeepalive)
}

func (m *testMember) registerSession(s *grpc.Server) { sessionpb.RegisterSessionServer(s, m.server) }

// patientKeepalive drops nobody who does not run for a while, and patientDial waits for whom it
// connects to.
var (
	patientKeepalive = grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: time.Minute})
	patientDial      = grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: time.Minute})
)

func (l *testCluster) listen(config *tls.Config, register func(*grpc.Server), options ...grpc.ServerOption) *listener {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(l.t, err)
	options = append(ServerOptions(), options...)
	server := grpc.NewServer(append(options, grpc.Creds(credentials.NewTLS(config)))...)
	register(server)
	go func() { _ = server.Serve(socket) }()
	l.t.Cleanup(server.Stop)
	return &listener{socket.Addr().String(), server}
}

func (l *testCluster) dial(addr string, as *pki.Credentials) *grpc.ClientConn {
	l.t.Helper()
	conn, err := grpc.NewClient(addr, append(DialOptions(), patientDial, grpc.WithTransportCredentials(credentials.NewTLS(as.Client(pki.Controller))))...)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { require.NoError(l.t, conn.Close()) })
	return conn
}

var errNoQuorum = errors.New("no leader took the command")

// commit appends a command and has all members that do not lag apply it.
func (l *testCluster) commit(cmd *fsmpb.Command) (*fsmpb.Outcome, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, proto.CloneOf(cmd))
	outcome := l.reference.Apply(uint64(len(l.log)), cmd).Outcome
	for _, m := range l.members {
		m.catchUp(l.log)
	}
	return outcome, uint64(len(l.log))
}

// mustApply commits a command of an actor that is not rejected.
func (l *testCluster) mustApply(actor string, cmd *fsmpb.Command) *fsmpb.Outcome {
	l.t.Helper()
	cmd.Actor = actor
	fillCommand(cmd)
	outcome, _ := l.commit(cmd)
	require.NoError(l.t, fsm.Err(outcome))
	return outcome
}

func fillCommand(cmd *fsmpb.Command) {
	if len(cmd.GetRequestId()) == 0 {
		cmd.RequestId = make([]byte, fsm.RequestIDLen)
		_, _ = rand.Read(cmd.RequestId)
	}
	cmd.SchemaVersion = fsm.LeastLevel(cmd)
}

// catchUp applies what the member has not applied yet, unless it lags.
func (m *testMember) catchUp(log []*fsmpb.Command) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lag {
		return
	}
	for i := int(m.state.Cluster().Index); i < len(log); i++ {
		m.notifyWatches(m.state.Apply(uint64(i+1), log[i]).Changes)
	}
	close(m.applied)
	m.applied = make(chan struct{})
}

func (m *testMember) notifyWatches(changes []fsm.Change) {
	for w := range m.watches {
		for _, c := range changes {
			if c.Node == w.node {
				w.changes = append(w.changes, c)
			}
		}
		w.notify()
	}
}

func (w *watch) notify() {
	if len(w.changes) == 0 && !w.all {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (m *testMember) setLag(lag bool) {
	m.mu.Lock()
	m.lag = lag
	m.mu.Unlock()
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	m.catchUp(m.cluster.log)
}

func (m *testMember) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	m.mu.Lock()
	m.requestIDs = append(m.requestIDs, cmd.GetRequestId())
	cmd.ProposedIndex = cmp.Or(cmd.GetProposedIndex(), m.state.Cluster().Index)
	committed := m.committed
	m.mu.Unlock()
	if m.failProposals.Load() {
		return nil, errNoQuorum
	}
	if !m.cluster.quorum.Load() {
		<-ctx.Done()
		return nil, errNoQuorum
	}
	fillCommand(cmd)
	outcome, index := m.cluster.commit(cmd)
	if committed != nil {
		committed(cmd)
	}
	if err := m.WaitIndex(ctx, index); err != nil {
		return nil, err
	}
	return outcome, fsm.Err(outcome)
}

func (m *testMember) View(fn func(*fsm.State) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fn(m.state)
}

// Read is linearizable: it reads what is committed.
func (m *testMember) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	if !m.cluster.quorum.Load() {
		return 0, errNoQuorum
	}
	m.cluster.mu.Lock()
	index := uint64(len(m.cluster.log))
	m.cluster.mu.Unlock()
	if err := m.WaitIndex(ctx, index); err != nil {
		return 0, err
	}
	return index, m.View(fn)
}

func (m *testMember) WaitIndex(ctx context.Context, index uint64) error {
	for {
		m.mu.Lock()
		have, applied := m.state.Cluster().Index, m.applied
		m.mu.Unlock()
		if have >= index {
			return nil
		}
		select {
		case <-applied:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Fork copies the state.
func (m *testMember) Fork() (state *fsm.State, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fork(), nil
}

func (m *testMember) WatchNode(node fsm.NodeID) (<-chan struct{}, func() ([]fsm.Change, bool), func()) {
	w := &watch{node: node, wake: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches[w] = true
	take := func() ([]fsm.Change, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		changes, all := w.changes, w.all
		w.changes, w.all = nil, false
		return changes, all
	}
	return w.wake, take, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watches, w)
	}
}

// simulateRestore notifies all watches as a restore does: everything may have changed.
func (m *testMember) simulateRestore() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range m.watches {
		w.all = true
		w.notify()
	}
}

func (m *testMember) Ready() error {
	if err := m.ready.Load(); err != nil {
		return *err
	}
	return nil
}

func (m *testMember) Peers(context.Context) ([]Peer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Peer
	for _, other := range m.cluster.members {
		if other == m {
			continue
		}
		if m.dialed[other.id] == nil {
			m.dialed[other.id] = m.cluster.dial(other.peers.addr, m.cluster.credentials(pki.Controller, m.name))
		}
		all = append(all, Peer{ID: other.name, Voter: true, Conn: m.dialed[other.id]})
	}
	return all, nil
}

func (m *testMember) requests() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requestIDs)
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
func (l *testCluster) create(id, name string) {
	l.t.Helper()
	l.mustApply("controller/a", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: name, Fingerprint: []byte("f"), RequiredBytes: 1 << 30, Replicas: 1,
		Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
	}}})
}

// eventually polls, within a deadline that is far beyond what is expected.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 2*time.Millisecond, what)
}
