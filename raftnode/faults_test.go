package raftnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// network cuts members off from each other.
type network struct {
	mu    sync.Mutex
	conns map[net.Conn]string
	cut   map[string]bool // addresses
}

func newNetwork() *network {
	return &network{conns: make(map[net.Conn]string), cut: make(map[string]bool)}
}

// dialFor is the dialing of the member that will have the listener's address.
func (w *network) dialFor(own func() string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cut[addr] || w.cut[own()] {
			return nil, errors.New("the network is cut")
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			w.conns[conn] = own() + " " + addr
		}
		return conn, err
	}
}

func (w *network) isolate(addr string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[addr] = cut
	for conn, ends := range w.conns {
		if strings.Contains(ends, addr) {
			_ = conn.Close()
			delete(w.conns, conn)
		}
	}
}

// threeOn is three on a network that can be cut.
func threeOn(t testing.TB, w *network) *cluster {
	c := newCluster(t, nil)
	for i := range 3 {
		c.add(fmt.Sprintf("c%d", i+1), func(cfg *Config) {
			cfg.dial = w.dialFor(func() string { return c.members[i].addr })
		})
	}
	c.settle(3)
	return c
}

func TestReadsAreNeverStaleOnALeaderThatWasCutOff(t *testing.T) {
	t.Parallel()
	w := newNetwork()
	c := threeOn(t, w)
	for i := range 2 {
		old := c.leader()
		rest := c.but(old)
		w.isolate(old.addr, true)
		name := fmt.Sprintf("behind-its-back-%d", i)
		stop, reads := make(chan struct{}), make(chan error, 1)
		var mu sync.Mutex
		acknowledged := false
		go func() {
			reads <- readUntil(t, old, name, stop, func() bool { mu.Lock(); defer mu.Unlock(); return acknowledged })
		}()
		rest[0].proposes(t, name)
		mu.Lock()
		acknowledged = true
		mu.Unlock()
		require.True(t, rest[1].knows(t, name))
		close(stop)
		require.NoError(t, <-reads)
		w.isolate(old.addr, false)
		c.settle(3)
		require.True(t, old.knows(t, name))
	}
}

// readUntil fails on a read that began after the acknowledgement and missed what was acknowledged.
func readUntil(t *testing.T, n *node, name string, stop <-chan struct{}, acknowledged func() bool) error {
	for {
		must, found := acknowledged(), false
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := n.Read(ctx, func(s *fsm.State) error {
			_, found = s.Node(fsm.NodeID(name))
			return nil
		})
		cancel()
		if err == nil && must && !found {
			return errors.New("a stale read")
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

// TestI7_AHeartbeatFromBeforeTheReadConfirmsNothing: the answer may have waited in
// the socket of a process that was stopped, while others elected a new leader.
func TestI7_AHeartbeatFromBeforeTheReadConfirmsNothing(t *testing.T) {
	servers := []raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "watcher", Suffrage: raft.Nonvoter}}
	for name, tc := range map[string]struct {
		acks map[raft.ServerID]ack
		want bool
	}{
		"nobody answered":                        {nil, false},
		"one voter beside the leader":            {map[raft.ServerID]ack{"b": {term: 7, sent: 11}}, true},
		"an answer to a heartbeat before":        {map[raft.ServerID]ack{"b": {term: 7, sent: 10}, "c": {term: 7, sent: 3}}, false},
		"an answer in an earlier term":           {map[raft.ServerID]ack{"b": {term: 6, sent: 12}}, false},
		"a member without a vote":                {map[raft.ServerID]ack{"watcher": {term: 7, sent: 12}}, false},
		"a stranger":                             {map[raft.ServerID]ack{"z": {term: 7, sent: 12}}, false},
		"the leader's own does not count double": {map[raft.ServerID]ack{"a": {term: 7, sent: 12}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &transport{acks: make(map[raft.ServerID]ack), acked: make(chan struct{})}
			for range 2 {
				for id, a := range tc.acks {
					tr.confirmed(id, a)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				err := tr.confirm(ctx, "a", 7, 10, servers)
				cancel()
				require.Equal(t, tc.want, err == nil, "%v", err)
			}
		})
	}
}

func TestS4_AnUnknownOutcomeProposedAgainHasOneEffect(t *testing.T) {
	t.Parallel()
	c := three(t, nil)
	leader := c.leader()
	cmd := register("given-up")
	cmd.RequestId, cmd.ProposedIndex = []byte("0123456789abcdef"), leader.machine.index.Load()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the command is on its way and nobody waits for it
	_, err := leader.append(ctx, cmd)
	require.ErrorIs(t, err, ErrOutcomeUnknown)
	require.True(t, IsUnavailable(err))
	eventually(t, func() error {
		if !leader.knows(t, "given-up") {
			return errors.New("not applied yet")
		}
		return nil
	})
	first, err := c.followers()[0].Propose(within(t), cmd)
	require.NoError(t, err)
	again, err := c.followers()[1].Propose(within(t), cmd)
	require.NoError(t, err)
	require.Equal(t, first.GetIndex(), again.GetIndex())
	require.Less(t, first.GetIndex(), leader.machine.index.Load(), "the repeated command had its own entry")
}

func TestI6_CommandsAcrossALeadersDeathHaveOneEffect(t *testing.T) {
	t.Parallel()
	c := three(t, nil)
	old := c.leader()
	rest := c.but(old)
	var wg sync.WaitGroup
	for worker := range 6 {
		wg.Go(func() {
			for i := range 30 {
				rest[worker%2].proposes(t, fmt.Sprintf("burst-%d-%d", worker, i))
			}
		})
	}
	rest[0].proposes(t, "burst-began")
	old.crash(t)
	wg.Wait()
	effects := make(map[string]uint64)
	_, err := rest[0].History(0, 0, func(e Entry) bool {
		id := string(e.Command.GetRequestId())
		if first, seen := effects[id]; seen && first != e.Outcome.GetIndex() {
			t.Errorf("request %x had effects at %d and %d", id, first, e.Outcome.GetIndex())
		}
		effects[id] = e.Outcome.GetIndex()
		return true
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(effects), 181)
	sameHash(t, rest...)
}

func TestAMemberThatMissedTooMuchGetsARaftSnapshot(t *testing.T) {
	for _, kind := range []string{"wal", "boltdb"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			catchUpBySnapshot(t, kind)
		})
	}
}

func catchUpBySnapshot(t *testing.T, kind string) {
	c := three(t, func(cfg *Config) {
		cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.LogStore = 32, 20*time.Millisecond, kind
		cfg.SegmentSize = 8 << 10 // a wal goes on reading what is deleted from its last segment
	})
	behind := c.followers()[0]
	rest := c.but(behind)
	behind.crash(t)
	for i := range 200 {
		rest[0].proposes(t, fmt.Sprintf("missed-%d", i))
	}
	leader := c.leader(rest...)
	eventually(t, func() error { return compacted(leader, behind) })
	require.NoError(t, c.start(behind))
	c.settle(3)
	require.True(t, behind.knows(t, "missed-199"))
	require.NotZero(t, testutil.ToFloat64(behind.metrics.snapshots.WithLabelValues("restored")))
	sameHash(t, c.members...)
	newcomer := c.add("c4", nil)
	c.settle(4)
	require.True(t, newcomer.knows(t, "missed-199"))
	newcomer.proposes(t, "from-the-newcomer")
	sameHash(t, c.members...)
	for _, n := range c.members {
		require.NoError(t, n.View(func(s *fsm.State) error { return s.Check() }))
	}
}

// compacted tells whether the leader no longer has the next entry of a member.
func compacted(leader, behind *node) error {
	first, err := leader.storage.logs.FirstIndex()
	if err == nil && first <= behind.raft.LastIndex()+1 {
		err = fmt.Errorf("the log still begins at %d", first)
	}
	return err
}

// diverge replaces a member's state by one in which a node has another limit.
func diverge(t *testing.T, n *node, limit uint32) {
	t.Helper()
	require.True(t, n.knows(t, "common"))
	state := fsm.New()
	n.machine.mu.Lock()
	defer n.machine.mu.Unlock()
	for at := uint64(1); at <= n.machine.index.Load(); at++ {
		var l raft.Log
		require.NoError(t, n.storage.logs.GetLog(at, &l))
		if l.Type != raft.LogCommand {
			continue
		}
		cmd := new(fsmpb.Command)
		require.NoError(t, proto.Unmarshal(l.Data, cmd))
		if r := cmd.GetRegisterNode(); r != nil {
			r.MaxVolumes = limit
		}
		state.Apply(at, cmd)
	}
	require.NotEqual(t, n.machine.state.Hash(), state.Hash())
	n.machine.state = state
}

// proposeUntil keeps the log moving, so that checkpoints are made.
func proposeUntil(t *testing.T, members []*node, done func() error) {
	t.Helper()
	i := 0
	eventually(t, func() error {
		if err := done(); err == nil {
			return nil
		}
		i++
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = members[i%len(members)].Propose(ctx, register(fmt.Sprintf("moving-%d", i)))
		return done()
	})
}

func left(n *node) error {
	if n.exited.Load() < 0 {
		return errors.New("it goes on")
	}
	return nil
}

func TestS23_AMemberOutsideTheMajorityLeavesAndNobodyElse(t *testing.T) {
	t.Parallel()
	for name, pick := range map[string]func(*cluster) *node{
		"a diverged follower":                               pickFollower,
		"a diverged leader does not expel two good members": pickLeader,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := three(t, nil)
			c.members[0].proposes(t, "common")
			bad := pick(c)
			diverge(t, bad, 7)
			good := c.but(bad)
			proposeUntil(t, good, func() error { return left(bad) })
			require.EqualValues(t, ExitRestart, bad.exited.Load())
			require.NoError(t, bad.Close())
			require.ErrorIs(t, bad.Ready(), errStopped)
			_, err := bad.Read(t.Context(), func(*fsm.State) error { return nil })
			require.True(t, IsUnavailable(err), "%v", err)
			good[0].proposes(t, "without-it")
			for _, n := range good {
				require.True(t, n.knows(t, "without-it"))
				require.Error(t, left(n))
			}
			for range 2 {
				require.ErrorIs(t, c.start(bad), store.ErrQuarantined)
			}
		})
	}
}

func pickFollower(c *cluster) *node { return c.followers()[0] }
func pickLeader(c *cluster) *node   { return c.leader() }

func TestS23_WithoutAMajorityNobodyLeavesAndMutationsAreRefused(t *testing.T) {
	t.Parallel()
	c := three(t, nil)
	c.members[0].proposes(t, "common")
	diverge(t, c.members[0], 7)
	diverge(t, c.members[1], 8)
	proposeUntil(t, c.members, func() error {
		for _, n := range c.members {
			if _, err := n.Propose(within(t), register("refused")); !errors.Is(err, ErrDiverged) {
				return fmt.Errorf("%s: %w", n.cfg.Name, err)
			}
			if err := n.Ready(); !errors.Is(err, ErrDiverged) {
				return fmt.Errorf("%s is ready: %w", n.cfg.Name, err)
			}
		}
		return nil
	})
	for _, n := range c.members {
		require.Error(t, left(n))
	}
}

func TestCheckpointsCarryTheHashOfAllMembers(t *testing.T) {
	t.Parallel()
	c := three(t, nil)
	proposeUntil(t, c.members, func() error {
		for _, n := range c.members {
			if at := n.machine.cluster().Checkpoint; at.Index < 16 {
				return fmt.Errorf("%s is at checkpoint %d", n.cfg.Name, at.Index)
			}
		}
		return nil
	})
	for _, n := range c.members {
		at := n.machine.cluster().Checkpoint
		hash, known := n.machine.hashAt(at.Index)
		require.True(t, known)
		require.Equal(t, at.Hash, hash[:])
	}
}

func TestAFaultStopsTheMember(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	n := c.add("c1", nil)
	c.settle(1)
	n.raft.Apply([]byte("no command"), time.Second) // its future is never answered
	eventually(t, func() error { return left(n) })
	require.EqualValues(t, ExitRestart, n.exited.Load())
	require.ErrorContains(t, n.Ready(), "not a command")
}

func TestTheRaftListenerRefusesAllRolesButControllers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	n := c.add("c1", nil)
	for _, role := range []pki.Role{pki.Node, pki.Admin, pki.Viewer, pki.Controller} {
		files, err := pki.Issue(c.ca, filepath.Join(c.root, "role-"+string(role)), pki.Identity{Role: role, Name: "x"}, time.Hour)
		require.NoError(t, err)
		creds, err := pki.Load(files)
		require.NoError(t, err)
		for _, proto := range []string{protoRaft, protoGRPC} {
			err := greet(t, n.addr, creds, proto)
			if role == pki.Controller {
				require.NoError(t, err, proto)
				continue
			}
			require.Error(t, err, "%s over %s", role, proto)
			var timeout net.Error
			require.False(t, errors.As(err, &timeout) && timeout.Timeout(), "%s over %s is refused, not kept waiting", role, proto)
		}
	}
}

// greet tells how a listener took a certificate: a client learns it when it reads.
func greet(t *testing.T, addr string, creds *pki.Credentials, proto string) error {
	config := creds.Client(pki.Controller)
	config.NextProtos = []string{proto}
	conn, err := tls.Dial("tcp", addr, config)
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, conn.Close()) }()
	require.Equal(t, proto, conn.ConnectionState().NegotiatedProtocol)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return nil // it waits for what this end says
	}
	return err
}

func TestMembersThatAreRemovedEnd(t *testing.T) {
	t.Parallel()
	for name, pick := range map[string]func(*cluster) *node{"a follower": pickFollower, "the leader": pickLeader} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := three(t, nil)
			gone := pick(c)
			rest := c.but(gone)
			for range 2 {
				require.NoError(t, rest[0].RemovePeer(within(t), gone.id))
			}
			eventually(t, func() error { return left(gone) })
			require.EqualValues(t, ExitRemoved, gone.exited.Load())
			rest[1].proposes(t, "we-are-two")
			require.Len(t, rest[0].Peers(), 2)
		})
	}
}

func TestAMemberOnAnotherPortIsFoundAgain(t *testing.T) {
	t.Parallel()
	c := three(t, nil)
	moved := c.followers()[0]
	moved.crash(t)
	moved.addr = "127.0.0.1:0"
	require.NoError(t, c.start(moved))
	c.settle(3)
	moved.proposes(t, "from-the-new-port")
}

func TestNothingIsLeftRunningAfterClose(t *testing.T) {
	c := three(t, nil)
	c.members[0].proposes(t, "something")
	for _, n := range c.members {
		for range 2 {
			require.NoError(t, n.Close())
		}
		_, err := n.Propose(t.Context(), register("too-late"))
		require.ErrorIs(t, err, ErrShutdown)
	}
	eventually(t, func() error {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		for _, g := range strings.Split(string(stacks), "\n\n") {
			if strings.Contains(g, "testing.tRunner") {
				continue
			}
			for _, part := range []string{"hashicorp/raft", "holdfast/raftnode", "google.golang.org/grpc"} {
				if strings.Contains(g, part) {
					return errors.New(g)
				}
			}
		}
		return nil
	})
}
