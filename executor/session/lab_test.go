package session

import (
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
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// quick is a pace for tests: what happens often does at once, and nobody is given up for
// being slow on a busy machine. What is about silence sets soonSilent.
var quick = pace{
	beat: 20 * time.Millisecond, silence: time.Minute, hello: 10 * time.Second,
	seen: 100 * time.Millisecond, register: 10 * time.Second, connect: 10 * time.Second, hedge: 100 * time.Millisecond,
}

const soonSilent = 200 * time.Millisecond

// lab is a cluster of controllers around one log, with real listeners, real
// certificates and the real state; only Raft is pretended.
type lab struct {
	t   *testing.T
	ca  string
	mu  sync.Mutex
	log []*fsmpb.Command
	// reference has applied the whole log.
	reference *fsm.State
	members   []*member
	quorum    atomic.Bool
	leader    atomic.Int32
}

// member is a pretended Raft member with the services of this package.
type member struct {
	lab  *lab
	id   int
	name string

	mu      sync.Mutex
	state   *fsm.State
	lag     bool
	applied chan struct{} // closed and replaced at each apply
	watches map[*watch]bool
	asked   [][]byte // request ids that were proposed here

	ready  atomic.Pointer[error]
	refuse atomic.Bool // proposals fail here
	server *Server
	api    *listener
	peers  *listener
	dialed map[int]*grpc.ClientConn
}

type watch struct {
	node    fsm.NodeID
	wake    chan struct{}
	touched []fsm.Change
	all     bool
}

type listener struct {
	addr string
	*grpc.Server
}

func newLab(t *testing.T, members int) *lab {
	t.Helper()
	return newLabAt(t, members, fsm.MaxFeatureLevel)
}

// newLabAt is a lab whose cluster runs at a feature level.
func newLabAt(t *testing.T, members int, level uint32) *lab {
	t.Helper()
	l := &lab{t: t, reference: fsm.New(), ca: filepath.Join(t.TempDir(), "ca")}
	require.NoError(t, pki.MakeCA(l.ca, "one"))
	l.quorum.Store(true)
	for i := range members {
		m := &member{lab: l, id: i, name: string(rune('a' + i)), state: fsm.New(), applied: make(chan struct{}), watches: map[*watch]bool{}, dialed: map[int]*grpc.ClientConn{}}
		m.server = NewServer(m, slog.New(slog.DiscardHandler))
		m.server.pace = quick
		l.members = append(l.members, m)
		m.serve()
	}
	l.must("controller/a", &fsmpb.Command{Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: "one", IncarnationId: []byte("0123456789abcdef"), FeatureLevel: level,
	}}})
	return l
}

func (l *lab) credentials(role pki.Role, name string) *pki.Credentials {
	l.t.Helper()
	files, err := pki.Issue(l.ca, filepath.Join(l.t.TempDir(), "out"), pki.Identity{Role: role, Name: name}, time.Hour)
	require.NoError(l.t, err)
	c, err := pki.Load(files)
	require.NoError(l.t, err)
	return c
}

func (m *member) serve() {
	own := m.lab.credentials(pki.Controller, m.name)
	m.api = m.lab.listen(own.Server(pki.Controller, pki.Node, pki.Admin, pki.Viewer), func(s *grpc.Server) {
		sessionpb.RegisterSessionServer(s, m.server)
	})
	m.peers = m.lab.listen(own.Server(pki.Controller, pki.Node), func(s *grpc.Server) { m.server.RegisterPeers(s) })
}

func (l *lab) listen(config *tls.Config, register func(*grpc.Server)) *listener {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(l.t, err)
	server := grpc.NewServer(append(ServerOptions(), grpc.Creds(credentials.NewTLS(config)))...)
	register(server)
	go func() { _ = server.Serve(socket) }()
	l.t.Cleanup(server.Stop)
	return &listener{socket.Addr().String(), server}
}

func (l *lab) dial(addr string, as *pki.Credentials) *grpc.ClientConn {
	l.t.Helper()
	conn, err := grpc.NewClient(addr, append(DialOptions(), grpc.WithTransportCredentials(credentials.NewTLS(as.Client(pki.Controller))))...)
	require.NoError(l.t, err)
	l.t.Cleanup(func() { require.NoError(l.t, conn.Close()) })
	return conn
}

var errNoQuorum = errors.New("no leader took the command")

// commit appends a command and has all members that do not lag apply it.
func (l *lab) commit(cmd *fsmpb.Command) (*fsmpb.Outcome, uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, proto.CloneOf(cmd))
	outcome := l.reference.Apply(uint64(len(l.log)), cmd).Outcome
	for _, m := range l.members {
		m.catchUp(l.log)
	}
	return outcome, uint64(len(l.log))
}

// must commits a command of an actor that is not rejected.
func (l *lab) must(actor string, cmd *fsmpb.Command) *fsmpb.Outcome {
	l.t.Helper()
	cmd.Actor = actor
	complete(cmd)
	outcome, _ := l.commit(cmd)
	require.NoError(l.t, fsm.Err(outcome))
	return outcome
}

func complete(cmd *fsmpb.Command) {
	if len(cmd.GetRequestId()) == 0 {
		cmd.RequestId = make([]byte, requestIDLen)
		_, _ = rand.Read(cmd.RequestId)
	}
	cmd.SchemaVersion = fsm.LeastLevel(cmd)
}

// catchUp applies what the member has not applied yet, unless it lags.
func (m *member) catchUp(log []*fsmpb.Command) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lag {
		return
	}
	for i := int(m.state.Cluster().Index); i < len(log); i++ {
		m.touch(m.state.Apply(uint64(i+1), log[i]).Changes)
	}
	close(m.applied)
	m.applied = make(chan struct{})
}

func (m *member) touch(touched []fsm.Change) {
	for w := range m.watches {
		for _, t := range touched {
			if t.Node == w.node {
				w.touched = append(w.touched, t)
			}
		}
		w.ring()
	}
}

func (w *watch) ring() {
	if len(w.touched) == 0 && !w.all {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (m *member) setLag(lag bool) {
	m.mu.Lock()
	m.lag = lag
	m.mu.Unlock()
	m.lab.mu.Lock()
	defer m.lab.mu.Unlock()
	m.catchUp(m.lab.log)
}

func (m *member) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	m.mu.Lock()
	m.asked = append(m.asked, cmd.GetRequestId())
	m.mu.Unlock()
	if m.refuse.Load() {
		return nil, errNoQuorum
	}
	if !m.lab.quorum.Load() {
		<-ctx.Done()
		return nil, errNoQuorum
	}
	complete(cmd)
	outcome, index := m.lab.commit(cmd)
	if err := m.WaitIndex(ctx, index); err != nil {
		return nil, err
	}
	return outcome, fsm.Err(outcome)
}

func (m *member) View(fn func(*fsm.State) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fn(m.state)
}

func (m *member) WaitIndex(ctx context.Context, index uint64) error {
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
func (m *member) Fork() (state *fsm.State, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Fork(), nil
}

func (m *member) WatchNode(node fsm.NodeID) (<-chan struct{}, func() ([]fsm.Change, bool), func()) {
	w := &watch{node: node, wake: make(chan struct{}, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches[w] = true
	take := func() ([]fsm.Change, bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		touched, all := w.touched, w.all
		w.touched, w.all = nil, false
		return touched, all
	}
	return w.wake, take, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watches, w)
	}
}

// restored tells all watchers what a restore tells them.
func (m *member) restored() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range m.watches {
		w.all = true
		w.ring()
	}
}

func (m *member) Leading() (uint64, bool) { return 1, int(m.lab.leader.Load()) == m.id }

func (m *member) Ready() error {
	if err := m.ready.Load(); err != nil {
		return *err
	}
	return nil
}

func (m *member) Peers(context.Context) ([]Peer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Peer
	for _, other := range m.lab.members {
		if other == m {
			continue
		}
		if m.dialed[other.id] == nil {
			m.dialed[other.id] = m.lab.dial(other.peers.addr, m.lab.credentials(pki.Controller, m.name))
		}
		all = append(all, Peer{ID: other.name, Voter: true, Conn: m.dialed[other.id]})
	}
	return all, nil
}

func (m *member) requests() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// register is what a host of that name says of itself.
func register(node string) *fsmpb.RegisterNode {
	return &fsmpb.RegisterNode{
		NodeId: node, HostId: "host-" + node, BootId: "boot-1", FeatureLevel: fsm.MaxFeatureLevel, Version: "test",
		Pools: []*fsmpb.Pool{{PoolId: "pool-" + node, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 2000}},
	}
}

const volumeID = "hf-00000000-0000-0000-0000-000000000001"

// create makes a volume; the only reachable host gets it.
func (l *lab) create(id, name string) {
	l.t.Helper()
	l.must("controller/a", &fsmpb.Command{Body: &fsmpb.Command_CreateVolume{CreateVolume: &fsmpb.CreateVolume{
		VolumeId: id, Name: name, Fingerprint: []byte("f"), RequiredBytes: 1 << 30, Replicas: 1,
		Capabilities: []*fsmpb.Capability{{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, FsType: "ext4"}},
	}}})
}

// eventually polls, within a deadline that is far beyond what is expected.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 2*time.Millisecond, what)
}
