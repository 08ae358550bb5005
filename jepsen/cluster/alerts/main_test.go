package alerts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/prometheus"
)

var builder harness.Builder

func TestMain(m *testing.M) {
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

const rulesFile = "../../../deploy/chart/files/alerts.yaml"

// watched is a cluster with a Prometheus that scrapes it.
type watched struct {
	*harness.Cluster
	*prometheus.Watch
	t         *testing.T
	installed string // the path that processes are started from
}

// install has what starts next be of the build under test.
func (w *watched) install() {
	binary, err := builder.Path(w.t.Context())
	require.NoError(w.t, err)
	require.NoError(w.t, harness.Install(binary, w.installed))
}

// startCluster starts a cluster without supervision, and prepares it before Prometheus looks at it.
func startCluster(t *testing.T, opts harness.Options, prepare func(*harness.Cluster)) *watched {
	t.Helper()
	if why := harness.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	w := &watched{t: t, installed: filepath.Join(t.TempDir(), "holdfast")}
	w.install()
	opts.Binary = w.installed
	var err error
	w.Cluster, err = harness.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the logs:\n%s", w.Logs(10))
		}
		require.NoError(t, w.Clean(context.Background()))
	})
	prepare(w.Cluster)
	l, err := w.Layout()
	require.NoError(t, err)
	w.Watch = prometheus.StartWatch(t, rulesFile, jobsOf(l)...)
	return w
}

// jobsOf are all processes of a cluster.
func jobsOf(l harness.Layout) []prometheus.Job {
	controllers, nodes := prometheus.Job{Name: "holdfast-controller"}, prometheus.Job{Name: "holdfast-node"}
	for _, c := range l.Controllers {
		controllers.Targets = append(controllers.Targets, c.Metrics)
	}
	for _, n := range l.Nodes {
		nodes.Targets = append(nodes.Targets, n.Metrics)
	}
	return []prometheus.Job{controllers, nodes}
}
