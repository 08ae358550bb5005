package runbooks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

var builder harness.Builder

// TestMain is also the systemctl of the shells that follow a runbook.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "systemctl" {
		os.Exit(systemctl(os.Args[1:]))
	}
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
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

// clean removes a cluster when the test ends, and shows its logs if it failed.
func clean(t *testing.T, c *harness.Cluster) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the logs:\n%s", c.Logs(4))
		}
		require.NoError(t, c.Clean(context.Background()))
	})
}
