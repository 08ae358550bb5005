package isolated

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var (
	builder harness.Builder
	long    = flag.Bool("long", os.Getenv("HOLDFAST_LONG") != "", "run the long form of the tests")
)

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// startCluster starts a cluster that is removed, and proved to be gone, when the test ends. Tests with clusters run beside each
// other: they wait most of the time, and clusters never meet.
func startCluster(t *testing.T, opts Options) *Cluster {
	t.Helper()
	t.Parallel()
	if why := WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	if opts.Binary == "" {
		path, err := builder.Path(t.Context())
		require.NoError(t, err)
		opts.Binary = path
	}
	begin := time.Now()
	c, err := Start(t.Context(), opts)
	require.NoError(t, err)
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.View().Logs(40))
		}
		require.NoError(t, c.Panics())
		require.NoError(t, c.Close(context.Background()))
	})
	return c
}
