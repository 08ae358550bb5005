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

// threeOn is three on a network that can be cut.
func threeOn(t testing.TB, w *network) *cluster {
	c := newCluster(t, nil)
	for i := range 3 {
		known, addr := make(chan struct{}), ""
		n := c.add(fmt.Sprintf("c%d", i+1), func(cfg *Config) {
			cfg.dial = w.dialFor(func() string { <-known; return addr })
		})
		addr = n.addr
		close(known)
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
		case <-t.Context().Done():
			return nil
		default:
		}
	}
}

// TestS139_AHeartbeatFromBeforeTheReadConfirmsNothing: the answer may have waited in
// the socket of a process that was stopped, while others elected a new leader.
func TestS139_AHeartbeatFromBeforeTheReadConfirmsNothing(t *testing.T) {
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
	cmd := register("given-up")
	cmd.RequestId, cmd.ProposedIndex = []byte("0123456789abcdef"), c.leader().machine.index.Load()
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the command is on its way and nobody waits for it
	eventually(t, func() error {
		leader := c.leader()
		_, err := leader.append(ctx, cmd)
		if !errors.Is(err, ErrOutcomeUnknown) { // who led a moment ago may lead no more
			require.ErrorIs(t, err, ErrNotLeader)
			return err
		}
		require.True(t, IsUnavailable(err))
		if !leader.knows(t, "given-up") {
			return errors.New("not applied yet")
		}
		return nil
	})
	proposer := c.followers()[0]
	first, err := proposer.answers(t, cmd)
	require.NoError(t, err)
	again, err := c.but(proposer)[0].answers(t, cmd)
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
	t.Cleanup(wg.Wait) // what may fail the test must not outlive it
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
	for _, n := range rest { // whoever leads when it is back
		eventually(t, func() error { return compacted(n, behind) })
	}
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

// compacted tells whether a leader no longer has the next entry of a member.
func compacted(leader, behind *node) error {
	first, err := leader.storage.logs.FirstIndex()
	if err == nil && first <= behind.raft.LastIndex()+1 {
		err = fmt.Errorf("the log still begins at %d", first)
	}
	return err
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
