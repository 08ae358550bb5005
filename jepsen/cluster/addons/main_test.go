package addons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/addons/published"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

var (
	builder  harness.Builder
	programs = published.Programs{Dir: filepath.Join("..", "..", "csiaddons")}
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := errors.Join(builder.Close(), programs.Close()); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// path is where a program is: csi-addons, sidecar or manager.
func path(t *testing.T, name string) string {
	t.Helper()
	found, err := programs.Path(name)
	require.NoError(t, err)
	return found
}

// startCluster starts a cluster whose services of CSI-Addons want a token. It is removed, and proved to be gone, when the test ends.
func startCluster(t *testing.T, token string) *isolated.Cluster {
	t.Helper()
	if why := isolated.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	binary, err := builder.Path(t.Context())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	args := []string{"--addons-token-file=" + file}
	c, err := isolated.Start(t.Context(), isolated.Options{Binary: binary, ControllerArgs: args, NodeArgs: args})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.View().Logs(40))
		}
		require.NoError(t, c.Panics())
		require.NoError(t, c.Close(context.Background()))
	})
	return c
}
