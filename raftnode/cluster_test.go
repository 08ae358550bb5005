package raftnode

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// testTimeout bounds what takes milliseconds on an idle machine.
const testTimeout = 3 * time.Minute

// TestMain runs more parallel tests at a time than there are processors, unless -parallel is set:
// they wait more than they compute.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// testCluster is a set of members in this process, each with its own data directory, certificate and port.
type testCluster struct {
	t         testing.TB
	ca        string
	root      string
	log       *slog.Logger
	members   []*testMember
	configure func(*Config)
}

// testMember is one member with what is needed to start it again.
type testMember struct {
	*Member
	cfg      Config
	files    pki.Files
	addr     string
	listener net.Listener // listens at the member's address, for the first start
	exitCode atomic.Int64
}

func newTestCluster(t testing.TB, configure func(*Config)) *testCluster {
	t.Helper()
	c := &testCluster{t: t, root: t.TempDir(), log: slog.New(slog.DiscardHandler), configure: configure}
	if os.Getenv("HOLDFAST_TEST_LOG") != "" {
		c.log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	c.ca = filepath.Join(c.root, "ca")
	require.NoError(t, pki.MakeCA(c.ca, "test"))
	return c
}

// newThreeMembers is a cluster whose three members are voters.
func newThreeMembers(t testing.TB, configure func(*Config)) *testCluster {
	t.Helper()
	c := newTestCluster(t, configure)
	c.add("c1", nil)
	c.add("c2", nil)
	c.add("c3", nil)
	c.waitReady(3)
	return c
}

// add creates and starts a member: the first bootstraps the cluster, the others join it.
func (c *testCluster) add(name string, configure func(*Config)) *testMember {
	c.t.Helper()
	n := c.prepare(name, configure)
	require.NoError(c.t, c.start(n))
	return n
}

// prepare creates a member without starting it.
func (c *testCluster) prepare(name string, configure func(*Config)) *testMember {
	c.t.Helper()
	files, err := pki.Issue(c.ca, filepath.Join(c.root, name+"-pki"), pki.Identity{Role: pki.Controller, Name: name}, time.Hour)
	require.NoError(c.t, err)
	n := &testMember{files: files, addr: freeAddr(), cfg: Config{
		Dir: filepath.Join(c.root, name), Name: name, Bootstrap: len(c.members) == 0,
		HeartbeatTimeout: testHeartbeat, DiskHang: testTimeout, DiskReserve: 1 << 20, DiskGuard: 1 << 20,
		Metrics: prometheus.NewRegistry(), SegmentSize: 1 << 20, CheckpointEvery: 16,
	}}
	if len(c.members) > 0 {
		n.cfg.Join = []string{c.members[0].addr}
	}
	for _, f := range []func(*Config){c.configure, configure} {
		if f != nil {
			f(&n.cfg)
		}
	}
	c.members = append(c.members, n)
	c.t.Cleanup(func() { require.NoError(c.t, n.stop()) })
	return n
}

// forEachLogStore runs a test with each kind of log store, or with -short the default one only.
func forEachLogStore(t *testing.T, test func(t *testing.T, kind string)) {
	t.Helper()
	t.Parallel()
	for _, kind := range []string{store.WAL, store.BoltDB} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			if kind != store.WAL {
				skipIfShort(t)
			}
			test(t, kind)
		})
	}
}

// skipIfShort skips a test that waits for long, and whose mechanism another test has run with -short.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long test of a cluster: not with -short")
	}
}

// freeAddr is an address with any port that nobody else listens at or connects from: while a member is
// down no other process, nor another test, is given its port.
func freeAddr() string {
	return fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(254), rand.N(256), 1+rand.N(254))
}

// start opens the member's data directory again, on the same port.
func (c *testCluster) start(n *testMember) error {
	c.t.Helper()
	listener := n.listener
	if n.listener = nil; listener == nil {
		var err error
		listener, err = net.Listen("tcp", n.addr)
		require.NoError(c.t, err)
	}
	n.addr = listener.Addr().String()
	cfg := n.cfg
	cfg.Listener = listener
	cfg.Logger = c.log.With("test", c.t.Name())
	creds, err := pki.Load(n.files)
	require.NoError(c.t, err)
	cfg.Credentials = creds
	n.exitCode.Store(-1)
	cfg.Exit = func(code int) { n.exitCode.Store(int64(code)) }
	n.Member, err = Open(c.t.Context(), cfg)
	return err
}

func (n *testMember) stop() error {
	if n.Member == nil {
		return nil
	}
	return n.Close()
}

// crash ends a member without transferring leadership.
func (n *testMember) crash(t testing.TB) {
	t.Helper()
	n.terminate(false)
	require.NoError(t, n.terminateErr)
}

// waitReady waits until there are that many voters and all members are ready.
func (c *testCluster) waitReady(voters int) {
	c.t.Helper()
	eventually(c.t, func() error {
		for _, n := range c.members {
			if err := n.Ready(); err != nil {
				return fmt.Errorf("%s: %w", n.cfg.Name, err)
			}
			if n.machine.cluster().ID == "" {
				return fmt.Errorf("%s: the cluster is not made yet", n.cfg.Name)
			}
			if got := len(n.voters()); got != voters {
				return fmt.Errorf("%s knows %d voters", n.cfg.Name, got)
			}
		}
		return nil
	})
}

// leader waits until one of these members leads, and returns it.
func (c *testCluster) leader(among ...*testMember) (leader *testMember) {
	c.t.Helper()
	if among == nil {
		among = c.members
	}
	eventually(c.t, func() error {
		for _, n := range among {
			if leading, _, _ := n.Leadership(); leading {
				leader = n
				return nil
			}
		}
		return fmt.Errorf("no leader")
	})
	return leader
}

func (c *testCluster) followers() []*testMember { return c.others(c.leader()) }

func (c *testCluster) others(n *testMember) []*testMember {
	return slices.DeleteFunc(slices.Clone(c.members), func(o *testMember) bool { return o == n })
}

// eventually polls until fn returns no error.
func eventually(t testing.TB, fn func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(testTimeout); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = fn(); err == nil {
			return
		}
	}
	require.NoError(t, err)
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// registerNode returns a command that is accepted for any name.
func registerNode(name string) *fsmpb.Command {
	return &fsmpb.Command{
		Actor: "node/" + name,
		Body: &fsmpb.Command_RegisterNode{RegisterNode: &fsmpb.RegisterNode{
			NodeId: name, HostId: "host-" + name, BootId: "boot", FeatureLevel: fsm.MaxFeatureLevel,
			Pools: []*fsmpb.Pool{{PoolId: "pool-" + name, Backend: "loopfile", CapacityBytes: 1 << 40, OvercommitPercent: 2000}},
		}},
	}
}

// hasNode tells whether a linearizable read on the member finds the node.
func (n *testMember) hasNode(t testing.TB, name string) (found bool) {
	t.Helper()
	retryUnavailable(t, func() error {
		_, err := n.Read(testContext(t), func(s *fsm.State) error {
			_, found = s.Node(fsm.NodeID(name))
			return nil
		})
		return err
	})
	return found
}

func (n *testMember) mustPropose(t testing.TB, name string) {
	t.Helper()
	cmd := registerNode(name)
	retryUnavailable(t, func() error {
		_, err := n.Propose(testContext(t), cmd)
		return err
	})
}

// proposeUntilAnswered proposes a command until the log has an outcome for it, which may be a rejection.
func (n *testMember) proposeUntilAnswered(t testing.TB, cmd *fsmpb.Command) (outcome *fsmpb.Outcome, err error) {
	t.Helper()
	eventually(t, func() error {
		if outcome, err = n.Propose(testContext(t), cmd); IsUnavailable(err) {
			return err
		}
		return nil
	})
	return outcome, err
}

// retryUnavailable retries while there is no leader, which may take longer than a member's leaderless
// timeout on a loaded machine.
func retryUnavailable(t testing.TB, try func() error) {
	t.Helper()
	eventually(t, func() error {
		err := try()
		if err != nil && !IsUnavailable(err) {
			t.Errorf("not to be tried again: %v", err)
			return nil
		}
		return err
	})
}

// requireRefused tries a membership change until it is answered, and requires a refusal.
func requireRefused(t testing.TB, try func() error) {
	t.Helper()
	require.ErrorIs(t, untilAnswered(t, try), ErrRefused)
}

// untilAnswered tries until there is an answer, which may be a refusal.
func untilAnswered(t testing.TB, try func() error) (err error) {
	t.Helper()
	eventually(t, func() error {
		if err = try(); IsUnavailable(err) {
			return err
		}
		return nil
	})
	return err
}

// requireSameHash waits until all members have the same hash at the same index.
func requireSameHash(t testing.TB, members ...*testMember) {
	t.Helper()
	at := members[0].machine.index.Load()
	var first []byte
	for _, n := range members {
		s, err := n.Status(testContext(t), at)
		require.NoError(t, err)
		require.NotEmpty(t, s.GetStateHash(), n.cfg.Name)
		if first == nil {
			first = s.GetStateHash()
		}
		require.Equal(t, first, s.GetStateHash(), n.cfg.Name)
	}
}
