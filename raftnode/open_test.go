package raftnode

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// S142, S135: an empty data directory does not bootstrap a cluster unasked; enough logs are kept behind a Raft snapshot.
func TestOpenRefusesWithTheRemedy(t *testing.T) {
	c := newTestCluster(t, nil)
	files, err := pki.Issue(c.ca, filepath.Join(c.root, "pki"), pki.Identity{Role: pki.Controller, Name: "c1"}, time.Hour)
	require.NoError(t, err)
	creds, err := pki.Load(files)
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		adjust func(*Config)
		want   string
	}{
		"an empty folder and nobody to join": {func(*Config) {}, "name members to join through"},
		"too few trailing logs": {func(cfg *Config) { cfg.SnapshotThreshold, cfg.TrailingLogs = 100, 150 },
			"less than twice the snapshot threshold"},
		"an unknown log store": {func(cfg *Config) { cfg.LogStore = "paper" }, "paper"},
		"no credentials":       {func(cfg *Config) { cfg.Credentials = nil }, "credentials"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				require.NoError(t, err)
				cfg := Config{Dir: filepath.Join(c.root, "data"), Listener: listener, Credentials: creds, DiskReserve: -1, DiskGuard: 1}
				tc.adjust(&cfg)
				_, err = Open(t.Context(), cfg)
				require.ErrorContains(t, err, tc.want)
				_ = listener.Close() // it may be closed already
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	n.mustPropose(t, "counted")
	for range 2 {
		families, err := n.cfg.Metrics.(*prometheus.Registry).Gather()
		require.NoError(t, err)
		names := make(map[string]bool)
		for _, f := range families {
			names[f.GetName()] = true
		}
		for _, want := range []string{
			"state", "term", "applied_index", "commit_index", "last_contact_seconds", "apply_seconds", "fsync_seconds",
			"proposals_total", "elections_total", "disk_free_bytes", "inflight_proposals", "applied_entries_total",
		} {
			require.True(t, names["holdfast_raft_"+want], want)
		}
	}
	require.InDelta(t, 1, n.gauge(t, "holdfast_raft_ready"), 0)
	require.InDelta(t, 0, n.gauge(t, "holdfast_raft_diverged"), 0)
	require.NoError(t, n.Close())
	families, err := n.cfg.Metrics.(*prometheus.Registry).Gather()
	require.NoError(t, err)
	require.Empty(t, families, "the next member in this process may register again")
}

// gauge is the value of a gauge of the member that has one series.
func (n *testMember) gauge(t *testing.T, name string) float64 {
	t.Helper()
	families, err := n.cfg.Metrics.(*prometheus.Registry).Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestABatchQueueCollectsWhileBatchesAreInFlight(t *testing.T) {
	q := newBatchQueue[int](100, 10)
	batches, completions := make(chan []int, 100), make(chan func(), 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		q.run(ctx, func(batch []int, batchDone func()) { batches <- batch; completions <- batchDone })
	}()
	q.pending <- 1
	require.Equal(t, []int{1}, <-batches, "the first goes at once")
	q.pending <- 2
	require.Equal(t, []int{2}, <-batches, "so does the second")
	for i := range 5 {
		q.pending <- i
	}
	eventually(t, func() error {
		if len(q.pending) > 0 {
			return errors.New("not gathered yet")
		}
		return nil
	})
	require.Empty(t, batches, "the third waits for one to end")
	(<-completions)()
	require.Equal(t, []int{0, 1, 2, 3, 4}, <-batches)
	for i := range 12 {
		q.pending <- i
	}
	require.Len(t, <-batches, 10, "a full group waits for nobody")
	cancel()
	<-done
}

func TestMessagesToTheLeaderAreBounded(t *testing.T) {
	command := func(size int) *forwardedCommand { return &forwardedCommand{data: make([]byte, size)} }
	for name, tc := range map[string]struct {
		sizes []int
		want  int
	}{
		"all fit":                   {[]int{10, 20, 30}, 3},
		"the third is too much":     {[]int{maxForwardBytes / 2, maxForwardBytes / 2, 1}, 2},
		"a large one goes alone":    {[]int{maxForwardBytes + 1, 1}, 1},
		"a large one waits for its": {[]int{1, maxForwardBytes}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var batch []*forwardedCommand
			for _, size := range tc.sizes {
				batch = append(batch, command(size))
			}
			for range 2 {
				require.Equal(t, tc.want, countFitting(batch))
			}
		})
	}
}

func TestForwardedCommandsNeedABodyAndARequestID(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t, nil)
	n := c.add("c1", nil)
	c.waitReady(1)
	s := &service{member: n.Member}
	for range 2 {
		for _, cmd := range []*fsmpb.Command{nil, {}, {RequestId: []byte("0123456789abcdef")}, registerNode("no-request-id")} {
			_, _, err := s.startProposal(t.Context(), cmd)
			require.ErrorIs(t, err, ErrNotLeader)
		}
	}
}
