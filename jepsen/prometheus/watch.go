package prometheus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// scale is how much shorter than in the chart an alert must hold: a minute is a fifth of a second, an hour twelve seconds, and so is
// what is longer.
const scale = 300

// Require skips a test where Prometheus is missing, but not in CI.
func Require(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		require.Empty(t, os.Getenv("CI"), ErrMissing.Error())
		t.Skip("skipped: " + errors.Join(ErrMissing, err).Error())
	}
}

// Watch is a Prometheus that looks at a test's processes. Its methods end the test that they fail.
type Watch struct {
	*Server
	t     *testing.T
	rules map[string]Rule
	since map[string]time.Time // when an alert was last known to be silent
}

// StartWatch has a Prometheus scrape jobs under a rule file until the test ends, and returns once it scrapes all of them.
func StartWatch(t *testing.T, rulesFile string, jobs ...Job) *Watch {
	t.Helper()
	dir := t.TempDir()
	rules, err := Shorten(rulesFile, filepath.Join(dir, "alerts.yaml"), scale)
	require.NoError(t, err)
	w := &Watch{t: t, rules: map[string]Rule{}, since: map[string]time.Time{}}
	for _, r := range rules {
		w.rules[r.Name] = r
	}
	w.Server, err = Start(t.Context(), dir, jobs)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	targets := 0
	for _, j := range jobs {
		targets += len(j.Targets)
	}
	w.Await("all targets are scraped", fmt.Sprintf("sum(up) == %d", targets))
	return w
}

// Await waits until an expression has a series.
func (w *Watch) Await(what, expr string) {
	w.t.Helper()
	require.NoError(w.t, harness.Poll(w.t.Context(), harness.Patience, what, func() (bool, error) { return w.Holds(w.t.Context(), expr) }))
}

// Fires waits until an alert fires. It was pending before, if it is to hold for a while; Prometheus keeps that.
func (w *Watch) Fires(alert string) {
	w.t.Helper()
	r, known := w.rules[alert]
	require.True(w.t, known, "there is no alert %s", alert)
	w.Await(alert+" to fire", fmt.Sprintf(`ALERTS{alertname=%q, alertstate="firing"}`, alert))
	if r.For > 0 {
		since := max(1, time.Since(w.since[alert]).Milliseconds())
		w.Await(alert+" to have been pending", fmt.Sprintf(`count_over_time(ALERTS{alertname=%q, alertstate="pending"}[%dms])`, alert, since))
	}
}

// Quiet waits until none of the alerts fires or is pending: they are silent without their faults. It may take a moment: on a busy
// machine members elect another leader by themselves, and that is seen where times are shortened.
func (w *Watch) Quiet(alerts ...string) {
	w.t.Helper()
	for _, alert := range alerts {
		require.Contains(w.t, w.rules, alert)
		w.Ends(alert)
		w.since[alert] = time.Now()
	}
}

// Ends waits until an alert neither fires nor is pending, although Prometheus evaluates on.
func (w *Watch) Ends(alert string) {
	w.t.Helper()
	w.Await(alert+" to be over", fmt.Sprintf(`absent(ALERTS{alertname=%q}) and on () (count(up) > 0)`, alert))
}

// Value is what an expression of exactly one series is now.
func (w *Watch) Value(ctx context.Context, expr string) (string, error) {
	found, err := w.Query(ctx, expr)
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s has %d series", expr, len(found))
	}
	value, _ := found[0].Value[1].(string)
	return value, nil
}
