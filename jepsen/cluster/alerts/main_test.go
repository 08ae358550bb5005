package alerts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var builder harness.Builder

func TestMain(m *testing.M) {
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// scale is how much shorter than in the chart an alert must hold: a minute is a fifth of a second, an hour twelve seconds.
const scale = 300

const rulesFile = "../../../deploy/chart/files/alerts.yaml"

// watched is a cluster with a Prometheus that scrapes it.
type watched struct {
	*harness.Cluster
	*server
	t     *testing.T
	rules map[string]rule
	since time.Time // when quiet was last called
}

// startCluster starts a cluster without supervision, and prepares it before Prometheus looks at it.
func startCluster(t *testing.T, opts harness.Options, prepare func(*harness.Cluster)) *watched {
	t.Helper()
	if why := harness.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	binary, err := builder.Path(t.Context())
	require.NoError(t, err)
	opts.Binary = binary
	w := &watched{t: t, rules: map[string]rule{}}
	w.Cluster, err = harness.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the logs:\n%s", w.Logs(10))
		}
		require.NoError(t, w.Clean(context.Background()))
	})
	prepare(w.Cluster)
	w.watch()
	return w
}

func (w *watched) watch() {
	w.t.Helper()
	dir := w.t.TempDir()
	rules, err := shorten(rulesFile, filepath.Join(dir, "alerts.yaml"), scale)
	require.NoError(w.t, err)
	for _, r := range rules {
		w.rules[r.Name] = r
	}
	l, err := w.Layout()
	require.NoError(w.t, err)
	w.server, err = startPrometheus(w.t.Context(), dir, l)
	require.NoError(w.t, err)
	w.t.Cleanup(w.server.stop)
	w.await("all targets are scraped", fmt.Sprintf("sum(up) == %d", len(l.IDs())))
}

// await waits until an expression has a series.
func (w *watched) await(what, expr string) {
	w.t.Helper()
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, what, func() (bool, error) { return w.holds(w.t.Context(), expr) }))
}

// fires waits until an alert fires. It was pending before, if it is to hold for a while; Prometheus keeps that.
func (w *watched) fires(alert string) {
	w.t.Helper()
	r, known := w.rules[alert]
	require.True(w.t, known, "there is no alert %s", alert)
	w.await(alert+" to fire", fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing"}`, alert))
	if r.For > 0 {
		since := max(1, time.Since(w.since).Milliseconds())
		w.await(alert+" to have been pending", fmt.Sprintf(`count_over_time(ALERTS{alertname=%q, alertstate="pending"}[%dms])`, alert, since))
	}
}

// quiet waits until none of the alerts fires or is pending: they are silent without their faults. It may take a moment: on a busy
// machine members elect another leader by themselves, and that is seen where times are shortened.
func (w *watched) quiet(alerts ...string) {
	w.t.Helper()
	for _, alert := range alerts {
		require.Contains(w.t, w.rules, alert)
		w.ends(alert)
	}
	w.since = time.Now()
}

// ends waits until an alert neither fires nor is pending, although Prometheus evaluates on.
func (w *watched) ends(alert string) {
	w.t.Helper()
	w.await(alert+" to be over", fmt.Sprintf(`absent(ALERTS{alertname=%q}) and on () (count(up) > 0)`, alert))
}
