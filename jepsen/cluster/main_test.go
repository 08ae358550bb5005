package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
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

// shortOrLong is the first value, or the second in the long form.
func shortOrLong[T any](short, inLong T) T {
	if *long {
		return inLong
	}
	return short
}

// testBinary is the binary under test; the test is skipped where no cluster can run.
func testBinary(t *testing.T) string {
	t.Helper()
	if why := harness.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	path, err := builder.Path(t.Context())
	require.NoError(t, err)
	return path
}

// startCluster starts a cluster that is cleaned, and proved to be clean, when the test ends.
func startCluster(t *testing.T, opts harness.Options) *harness.Cluster {
	t.Helper()
	opts.Binary = testBinary(t)
	begin := time.Now()
	c, err := harness.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(func() { collectAndClean(t, c) })
	return c
}

// collectAndClean keeps what a person needs to understand a failure, then cleans.
func collectAndClean(t *testing.T, c *harness.Cluster) {
	if err := c.Panics(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		saveArtifacts(t, c)
	}
	require.NoError(t, c.Clean(context.Background()))
}

// saveArtifacts copies the logs and the last status into $HOLDFAST_ARTIFACTS, or prints the end of the log.
func saveArtifacts(t *testing.T, c *harness.Cluster) {
	t.Logf("status: %s", c.Run(context.Background(), "status", "--dir", c.Dir).Stdout)
	folder := os.Getenv("HOLDFAST_ARTIFACTS")
	if folder == "" {
		t.Logf("set HOLDFAST_ARTIFACTS to a folder to keep the logs; their end:\n%s", c.Logs(40))
		return
	}
	path := filepath.Join(folder, filepath.Base(t.Name())+".log")
	if err := os.WriteFile(path, []byte(c.Logs(1_000_000)), 0o600); err != nil {
		t.Logf("keep the logs: %v", err)
	}
	t.Logf("the logs are in %s", path)
}

// artifacts is the directory for what a person needs to understand a failure.
func artifacts(t *testing.T) string {
	if folder := os.Getenv("HOLDFAST_ARTIFACTS"); folder != "" {
		return folder
	}
	return t.TempDir()
}

// requireExactVolumes asserts that the cluster's images are those of exactly these volumes,
// each once, that an audit finds nothing, and that all members hold one state.
func requireExactVolumes(t *testing.T, c *harness.Cluster, volumes map[string]*harness.Volume) {
	t.Helper()
	require.NoError(t, c.AwaitCleanAudit(t.Context()))
	require.NoError(t, c.AwaitAgreement(t.Context()))
	files, err := c.AllImages()
	require.NoError(t, err)
	listed, err := c.NewCO().List(t.Context())
	require.NoError(t, err)
	owner := map[string]string{}
	for name, v := range volumes {
		require.NotContains(t, owner, v.ID, "volume %s belongs to %s and %s", v.ID, owner[v.ID], name)
		owner[v.ID] = name
		require.Contains(t, files, v.ID, "volume %s of %s has no image", v.ID, name)
		require.Contains(t, listed, v.ID, "volume %s of %s is not listed", v.ID, name)
	}
	require.Len(t, files, len(volumes), "images without a name")
	require.Len(t, listed, len(volumes), "volumes without a name")
}

// deleteAll deletes volumes with several workers and waits until nothing of them is left.
func deleteAll(t *testing.T, c *harness.Cluster, co *harness.CO, volumes map[string]*harness.Volume) {
	t.Helper()
	var all []*harness.Volume
	for _, v := range volumes {
		all = append(all, v)
	}
	inParallel(t, 8, len(all), func(i int) error { return co.Delete(t.Context(), all[i]) })
	require.NoError(t, c.AwaitNoLeftovers(t.Context()))
	require.NoError(t, c.AwaitCleanAudit(t.Context()))
}
