//go:build bench

package bench

import (
	"context"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// BenchmarkFailover kills the leader and waits for the next commit at a survivor.
func BenchmarkFailover(b *testing.B) {
	c := startHoldfast(b)
	all := members(b, c)
	for range b.N {
		took := leaderEnds(b, c, all, 20, syscall.SIGKILL)
		b.ReportMetric(took[len(took)-1].Seconds(), "max-s")
		b.ReportMetric(took[len(took)/2].Seconds(), "p50-s")
	}
}

// BenchmarkTransfer stops the leader as an upgrade does: it hands over first.
func BenchmarkTransfer(b *testing.B) {
	c := startHoldfast(b)
	all := members(b, c)
	for range b.N {
		took := leaderEnds(b, c, all, 10, syscall.SIGTERM)
		b.ReportMetric(ms(took[len(took)-1]), "max-ms")
		b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	}
}

// leaderEnds signals the leader n times, and measures until a survivor commits; sorted.
func leaderEnds(b *testing.B, c *harness.Cluster, all []raftpb.MemberClient, n int, sig syscall.Signal) []time.Duration {
	b.Helper()
	var took []time.Duration
	for range n {
		ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
		i := settled(ctx, b, all)
		l, err := c.Layout()
		require.NoError(b, err)
		pid := l.PID(l.ControllerIDs()[i])
		survivors := slices.Delete(slices.Clone(all), i, i+1)
		began := time.Now()
		require.NoError(b, syscall.Kill(pid, sig))
		firstCommit(ctx, survivors)
		took = append(took, time.Since(began))
		require.NoError(b, ctx.Err())
		cancel()
	}
	slices.Sort(took)
	return took
}

// settled waits until all members answer and agree who leads.
func settled(ctx context.Context, b *testing.B, all []raftpb.MemberClient) int {
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

// firstCommit probes every member each 10 ms until one commits.
func firstCommit(ctx context.Context, survivors []raftpb.MemberClient) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var once sync.Once
	committed := make(chan struct{})
	for _, m := range survivors {
		go func() {
			for ctx.Err() == nil {
				go func() {
					if propose(ctx, m, nothingToDo()) == nil {
						once.Do(func() { close(committed) })
					}
				}()
				time.Sleep(10 * time.Millisecond)
			}
		}()
	}
	select {
	case <-committed:
	case <-ctx.Done():
	}
}

// BenchmarkStable loads the log for a minute beside a process that takes what CPU
// it gets, and counts how often leadership changed.
func BenchmarkStable(b *testing.B) {
	c := startHoldfast(b, patientWithHosts)
	all := members(b, c)
	require.NoError(b, registerHost(b.Context(), all[0]))
	hog := exec.Command("sh", "-c", "while :; do :; done")
	hog.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(b, hog.Start())
	b.Cleanup(func() { _ = hog.Process.Kill(); _ = hog.Wait() })
	for range b.N {
		before := termOf(b, all)
		w := Rounds(b.Context(), 1, 256, 0, time.Minute, variant(b, "holdfast", all, pidsOf(b, c)))["holdfast"][0]
		b.ReportMetric(float64(termOf(b, all)-before), "leader-changes")
		b.ReportMetric(w.Rate, "commits/s")
		b.ReportMetric(float64(w.Errors), "errors")
	}
}

func termOf(b *testing.B, all []raftpb.MemberClient) uint64 {
	b.Helper()
	var term uint64
	for _, m := range all {
		s, err := m.Status(b.Context(), &raftpb.StatusRequest{})
		require.NoError(b, err)
		term = max(term, s.GetTerm())
	}
	return term
}
