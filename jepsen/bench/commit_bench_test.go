//go:build bench

package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// BenchmarkCommit sends CreateVolume commands to the leader of Holdfast and to
// that of bare hashicorp/raft with the same store, gRPC and TLS.
func BenchmarkCommit(b *testing.B) {
	for _, store := range []string{"wal", "boltdb"} {
		b.Run(store, func(b *testing.B) {
			c := startHoldfast(b, "--log-store", store, patientWithHosts)
			all := members(b, c)
			raw := startBare(b, c, store)
			require.NoError(b, registerHost(b.Context(), all[0]))
			for _, load := range []struct {
				name     string
				inFlight int
			}{{"1", 1}, {"64", 64}, {"256", 256}} {
				if store == "boltdb" && load.inFlight != 64 {
					continue
				}
				b.Run(load.name, func(b *testing.B) {
					for range b.N {
						compare(b, variant(b, "holdfast", all, pidsOf(b, c)), variant(b, "bare", raw.members, raw.pids), load.inFlight)
					}
				})
			}
		})
	}
}

// patientWithHosts keeps a host without a process reachable for the whole run.
const patientWithHosts = "--controller-arg=--node-timeout=1h"

func variant(b *testing.B, name string, all []raftpb.MemberClient, pids []int) Variant {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	i, err := leaderOf(ctx, all)
	require.NoError(b, err)
	return Variant{Name: name, Pids: pids, Run: func(ctx context.Context) error { return propose(ctx, all[i], createVolume()) }}
}

func compare(b *testing.B, holdfast, raw Variant, inFlight int) {
	b.Helper()
	w := Rounds(b.Context(), 9, inFlight, 300*time.Millisecond, time.Second, holdfast, raw)
	for _, v := range w["holdfast"] {
		require.NoError(b, v.Error, "%d operations failed", v.Errors)
	}
	rate, least, greatest, quiet := Paired(w["holdfast"], w["bare"], func(h, r Window) float64 { return h.Rate / r.Rate })
	cpu, _, _, _ := Paired(w["holdfast"], w["bare"], func(h, r Window) float64 { return float64(h.CPU) / float64(r.CPU) })
	tail, _, _, _ := Paired(w["holdfast"], w["holdfast"], func(h, _ Window) float64 { return float64(h.P99) / float64(h.P50) })
	b.ReportMetric(rate, "xBare")
	b.ReportMetric(least, "xBare-least")
	b.ReportMetric(greatest, "xBare-greatest")
	b.ReportMetric(cpu, "xBareCPU")
	b.ReportMetric(tail, "p99/p50")
	b.ReportMetric(float64(quiet), "quiet-rounds")
	b.ReportMetric(Median(w["holdfast"], func(w Window) float64 { return w.Rate }), "commits/s")
	b.ReportMetric(Median(w["bare"], func(w Window) float64 { return w.Rate }), "bare-commits/s")
	b.ReportMetric(Median(w["holdfast"], func(w Window) float64 { return ms(w.P50) }), "p50-ms")
	b.ReportMetric(Median(w["holdfast"], func(w Window) float64 { return float64(w.CPU.Microseconds()) }), "cpu-us/op")
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
