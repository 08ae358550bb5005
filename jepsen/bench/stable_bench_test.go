//go:build bench

package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// BenchmarkStable loads the log for a minute beside a process that takes what CPU
// it gets, and counts how often leadership changed.
func BenchmarkStable(b *testing.B) {
	c := startHoldfast(b, patientWithHosts)
	all := members(b, c)
	require.NoError(b, registerHost(b.Context(), all[0]))
	starve(b, 1)
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
