//go:build bench

package bench

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// BenchmarkFailover kills the leader and measures how long no survivor commits.
func BenchmarkFailover(b *testing.B) {
	c := startHoldfast(b)
	all := members(b, c)
	for range b.N {
		took := leaderEnds(b, c, all, 20, syscall.SIGKILL)
		b.ReportMetric(took[len(took)-1].Seconds(), "max-s")
		b.ReportMetric(took[len(took)/2].Seconds(), "p50-s")
	}
}

// BenchmarkTransfer stops the leader gracefully, as an upgrade does: it transfers leadership first.
func BenchmarkTransfer(b *testing.B) {
	c := startHoldfast(b)
	all := members(b, c)
	for range b.N {
		took := leaderEnds(b, c, all, 10, syscall.SIGTERM)
		b.ReportMetric(ms(took[len(took)-1]), "max-ms")
		b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	}
}

// leaderEnds signals the leader n times, and returns how long no survivor commits each time, sorted.
func leaderEnds(b *testing.B, c *harness.Cluster, all []raftpb.MemberClient, n int, sig syscall.Signal) []time.Duration {
	b.Helper()
	var took []time.Duration
	for range n {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		i := agreedLeader(ctx, b, all)
		l, err := c.Layout()
		require.NoError(b, err)
		pid := l.PID(l.ControllerIDs()[i])
		survivors := slices.Delete(slices.Clone(all), i, i+1)
		began := time.Now()
		require.NoError(b, syscall.Kill(pid, sig))
		took = append(took, longestGap(ctx, survivors, began))
		require.NoError(b, ctx.Err())
		cancel()
	}
	slices.Sort(took)
	return took
}

// agreedLeader waits until all members answer and agree on the leader.
func agreedLeader(ctx context.Context, b *testing.B, all []raftpb.MemberClient) int {
	b.Helper()
	for {
		leader, err := leaderOf(ctx, all)
		require.NoError(b, err)
		ready := 0
		head, err := all[leader].Status(ctx, &raftpb.StatusRequest{})
		for _, m := range all {
			s, failed := m.Status(ctx, &raftpb.StatusRequest{})
			if err == nil && failed == nil && s.GetLeaderId() == head.GetMemberId() && s.GetAppliedIndex() >= head.GetCommitIndex() && s.GetRole() != "nonvoter" {
				ready++
			}
		}
		if ready == len(all) {
			return leader
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// outage bounds the observation of a leader change.
const outage = 3 * time.Second

// longestGap probes every survivor each 5 ms, and returns the longest time in which none committed. A killed
// process may answer for a moment, so the first commit alone means nothing.
func longestGap(ctx context.Context, survivors []raftpb.MemberClient, began time.Time) time.Duration {
	ctx, cancel := context.WithDeadline(ctx, began.Add(outage))
	defer cancel()
	var mu sync.Mutex
	last, longest := began, time.Duration(0)
	note := func() {
		mu.Lock()
		defer mu.Unlock()
		longest, last = max(longest, time.Since(last)), time.Now()
	}
	var wg sync.WaitGroup
	for _, m := range survivors {
		wg.Go(func() {
			for ctx.Err() == nil {
				wg.Go(func() {
					if propose(ctx, m, idleCommand()) == nil {
						note()
					}
				})
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	note() // what was not answered until now is a gap too
	return longest
}
