package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
)

// network isolates members from each other.
type network struct {
	mu    sync.Mutex
	conns map[net.Conn]string
	cut   map[string]bool // addresses of isolated members
}

func newNetwork() *network {
	return &network{conns: make(map[net.Conn]string), cut: make(map[string]bool)}
}

// dialFor returns the dial function of the member that will have the listener's address.
func (w *network) dialFor(own func() string) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		from := own()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.cut[addr] || w.cut[from] {
			return nil, errors.New("the network is cut")
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			w.conns[conn] = from + " " + addr
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

// newThreeMembersOn returns three members on a network that can be partitioned.
func newThreeMembersOn(t testing.TB, w *network) *testCluster {
	c := newTestCluster(t, nil)
	for i := range 3 {
		addrKnown, addr := make(chan struct{}), ""
		n := c.add(fmt.Sprintf("c%d", i+1), func(cfg *Config) {
			cfg.dial = w.dialFor(func() string { <-addrKnown; return addr })
		})
		addr = n.addr
		close(addrKnown)
	}
	c.waitReady(3)
	return c
}

func TestReadsAreNeverStaleOnAnIsolatedLeader(t *testing.T) {
	t.Parallel()
	w := newNetwork()
	c := newThreeMembersOn(t, w)
	for i := range 2 {
		old := c.leader()
		rest := c.others(old)
		w.isolate(old.addr, true)
		name := fmt.Sprintf("behind-its-back-%d", i)
		stop, reads := make(chan struct{}), make(chan error, 1)
		var mu sync.Mutex
		acknowledged := false
		go func() {
			reads <- readUntil(t, old, name, stop, func() bool { mu.Lock(); defer mu.Unlock(); return acknowledged })
		}()
		rest[0].mustPropose(t, name)
		mu.Lock()
		acknowledged = true
		mu.Unlock()
		require.True(t, rest[1].hasNode(t, name))
		close(stop)
		require.NoError(t, <-reads)
		w.isolate(old.addr, false)
		c.waitReady(3)
		require.True(t, old.hasNode(t, name))
	}
}

// readUntil fails when a read that began after a command was acknowledged misses the command's effect.
func readUntil(t *testing.T, n *testMember, name string, stop <-chan struct{}, acknowledged func() bool) error {
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
		if err != nil {
			sleep(t.Context(), time.Millisecond) // it fails at once: do not keep the others from electing a leader
		}
		select {
		case <-stop:
			return nil
		case <-t.Context().Done():
			return nil
		default:
		}
	}
}

// TestS139_AHeartbeatFromBeforeTheReadConfirmsNothing checks that an old heartbeat's ack does not
// confirm a read: the ack may have waited in the socket of a stopped process while others elected a
// new leader.
func TestS139_AHeartbeatFromBeforeTheReadConfirmsNothing(t *testing.T) {
	servers := []raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "watcher", Suffrage: raft.Nonvoter}}
	for name, tc := range map[string]struct {
		acks map[raft.ServerID]ack
		want bool
	}{
		"nobody answered":                        {nil, false},
		"one voter beside the leader":            {map[raft.ServerID]ack{"b": {term: 7, sentAt: 11}}, true},
		"an answer to a heartbeat before":        {map[raft.ServerID]ack{"b": {term: 7, sentAt: 10}, "c": {term: 7, sentAt: 3}}, false},
		"an answer in an earlier term":           {map[raft.ServerID]ack{"b": {term: 6, sentAt: 12}}, false},
		"a member without a vote":                {map[raft.ServerID]ack{"watcher": {term: 7, sentAt: 12}}, false},
		"a stranger":                             {map[raft.ServerID]ack{"z": {term: 7, sentAt: 12}}, false},
		"the leader's own does not count double": {map[raft.ServerID]ack{"a": {term: 7, sentAt: 12}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := &transport{acks: make(map[raft.ServerID]ack), nextAck: make(chan struct{})}
			for range 2 {
				for id, a := range tc.acks {
					tr.recordAck(id, a)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				err := tr.waitForQuorum(ctx, "a", 7, 10, servers)
				cancel()
				require.Equal(t, tc.want, err == nil, "%v", err)
			}
		})
	}
}

func TestS4_AnUnknownOutcomeProposedAgainHasOneEffect(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	cmd := registerNode("given-up")
	cmd.RequestId, cmd.ProposedIndex = []byte("0123456789abcdef"), c.leader().machine.index.Load()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the command is in flight and has no caller any more
	eventually(t, func() error {
		leader := c.leader()
		_, err := leader.proposer.proposeInternal(ctx, cmd)
		if !errors.Is(err, ErrOutcomeUnknown) { // leadership may have changed since
			require.ErrorIs(t, err, ErrNotLeader)
			return err
		}
		require.True(t, IsUnavailable(err))
		if !leader.hasNode(t, "given-up") {
			return errors.New("not applied yet")
		}
		return nil
	})
	proposer := c.followers()[0]
	first, err := proposer.proposeUntilAnswered(t, cmd)
	require.NoError(t, err)
	again, err := c.others(proposer)[0].proposeUntilAnswered(t, cmd)
	require.NoError(t, err)
	require.Equal(t, first.GetIndex(), again.GetIndex())
	eventually(t, func() error {
		if at := proposer.machine.index.Load(); at <= first.GetIndex() {
			return fmt.Errorf("the repeated command has no entry of its own: index %d", at)
		}
		return nil
	})
}

func TestS4_CommandsAcrossALeadersDeathHaveOneEffect(t *testing.T) {
	t.Parallel()
	c := newThreeMembers(t, nil)
	old := c.leader()
	rest := c.others(old)
	var wg sync.WaitGroup
	for worker := range 6 {
		wg.Go(func() {
			for i := range 30 {
				rest[worker%2].mustPropose(t, fmt.Sprintf("burst-%d-%d", worker, i))
			}
		})
	}
	t.Cleanup(wg.Wait) // goroutines that may fail the test must not outlive it
	rest[0].mustPropose(t, "burst-began")
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
	requireSameHash(t, rest...)
}

func TestALaggingMemberCatchesUpByARaftSnapshot(t *testing.T) {
	forEachLogStore(t, testCatchUpBySnapshot)
}

func testCatchUpBySnapshot(t *testing.T, kind string) {
	c := newThreeMembers(t, func(cfg *Config) {
		cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.LogStore = 32, 20*time.Millisecond, kind
		cfg.SegmentSize = 8 << 10 // raft-wal can still read deleted entries in its last segment
	})
	behind := c.followers()[0]
	rest := c.others(behind)
	behind.crash(t)
	for i := range 200 {
		rest[0].mustPropose(t, fmt.Sprintf("missed-%d", i))
	}
	for _, n := range rest { // each member that may lead when it is back
		eventually(t, func() error { return checkCompacted(n, behind) })
	}
	require.NoError(t, c.start(behind))
	c.waitReady(3)
	require.True(t, behind.hasNode(t, "missed-199"))
	require.NotZero(t, testutil.ToFloat64(behind.metrics.snapshots.WithLabelValues("restored")))
	requireSameHash(t, c.members...)
	newcomer := c.add("c4", nil)
	c.waitReady(4)
	require.True(t, newcomer.hasNode(t, "missed-199"))
	newcomer.mustPropose(t, "from-the-newcomer")
	requireSameHash(t, c.members...)
	for _, n := range c.members {
		require.NoError(t, n.View(func(s *fsm.State) error { return s.Check() }))
	}
}

// checkCompacted returns an error while a leader still has the next entry of a member.
func checkCompacted(leader, behind *testMember) error {
	first, err := leader.storage.logs.FirstIndex()
	if err == nil && first <= behind.raft.LastIndex()+1 {
		err = fmt.Errorf("the log still begins at %d", first)
	}
	return err
}

func TestAPanicInApplyStopsTheMember(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	n.raft.Apply([]byte("no command"), time.Second) // its future is never answered
	eventually(t, func() error { return checkExited(n) })
	require.EqualValues(t, ExitRestart, n.exitCode.Load())
	require.ErrorContains(t, n.Ready(), "not a command")
}
