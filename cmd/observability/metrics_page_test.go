package observability

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// newTestRegistry has one metric of each type, of which one has no series yet and one is not this product's.
func newTestRegistry(t *testing.T) *prometheus.Registry {
	r := prometheus.NewRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_a_calls_total", Help: "Calls, by \"method\" and code."}, []string{"method", "code"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "holdfast_a_call_seconds", Help: "How long | calls took."}, []string{"method"})
	free := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "holdfast_a_free_bytes", Help: "Free.", ConstLabels: prometheus.Labels{"pool": "p"}}, func() float64 { return 1 })
	since := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "holdfast_a_since_seconds", Help: "Since then."}, func() float64 { return 1 })
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "go_things", Help: "Of the runtime."})
	for _, c := range []prometheus.Collector{calls, took, free, since, other} {
		require.NoError(t, r.Register(c))
	}
	return r
}

func TestTheSectionListsWhatIsRegistered(t *testing.T) {
	page := filepath.Join(t.TempDir(), "METRICS.md")
	const head = "# Metrics\n\n## Before\nkept\n\n## Here\nWords that stay.\n"
	const after = "\n## After\n\n| Metric | Type | Labels | Unit | Meaning |\n|---|---|---|---|---|\n| `holdfast_b` | gauge |  | number | Another process'. |\n"
	require.NoError(t, os.WriteFile(page, []byte(head+after), 0o600))
	r := newTestRegistry(t)
	for i, want := range []bool{false, false, true, true} {
		current, err := UpdateSection(page, "Here", r, i == 2)
		require.NoError(t, err)
		require.Equal(t, want, current)
	}
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), head))
	require.True(t, strings.HasSuffix(string(text), after))
	require.Equal(t, map[string]Metric{
		"holdfast_a_calls_total":   {"holdfast_a_calls_total", "counter", "number", "Calls, by \"method\" and code.", []string{"method", "code"}},
		"holdfast_a_call_seconds":  {"holdfast_a_call_seconds", "histogram", "seconds", `How long \| calls took.`, []string{"method"}},
		"holdfast_a_free_bytes":    {"holdfast_a_free_bytes", "gauge", "bytes", "Free.", []string{"pool"}},
		"holdfast_a_since_seconds": {"holdfast_a_since_seconds", "gauge", "seconds", "Since then.", nil},
		"holdfast_b":               {"holdfast_b", "gauge", "number", "Another process'.", nil},
	}, ParseMetrics(string(text)))
	_, err = UpdateSection(page, "Nowhere", r, true)
	require.ErrorContains(t, err, `no section "Nowhere"`)
}

func TestTheSectionIsStaleOnceAMetricChanges(t *testing.T) {
	page := filepath.Join(t.TempDir(), "METRICS.md")
	require.NoError(t, os.WriteFile(page, []byte("\n## Here\n"), 0o600))
	r := newTestRegistry(t)
	_, err := UpdateSection(page, "Here", r, true)
	require.NoError(t, err)
	more := prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_more", Help: "It is new."})
	require.NoError(t, r.Register(more))
	current, err := UpdateSection(page, "Here", r, false)
	require.NoError(t, err)
	require.False(t, current, "one that is registered is not listed")
	_, err = UpdateSection(page, "Here", r, true)
	require.NoError(t, err)
	require.True(t, r.Unregister(more))
	current, err = UpdateSection(page, "Here", r, false)
	require.NoError(t, err)
	require.False(t, current, "one that is listed is not registered")
}
