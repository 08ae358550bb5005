package addons

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/isolated"
)

var (
	builder  harness.Builder
	programs published
)

func TestMain(m *testing.M) {
	code := m.Run()
	if err := builder.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(programs.dir)
	os.Exit(code)
}

// published are the published programs, built once.
type published struct {
	once sync.Once
	dir  string
	err  error
}

const module = "github.com/csi-addons/kubernetes-csi-addons"

// path is where a program is: csi-addons, sidecar or manager.
func (p *published) path(t *testing.T, name string) string {
	t.Helper()
	p.once.Do(func() { p.build(t) })
	require.NoError(t, p.err)
	return filepath.Join(p.dir, name)
}

func (p *published) build(t *testing.T) {
	begin := time.Now()
	if p.dir, p.err = os.MkdirTemp("", "holdfast-clients-"); p.err != nil {
		return
	}
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", p.dir, module+"/cmd/csi-addons", module+"/cmd/manager", module+"/sidecar")
	cmd.Dir = filepath.Join("..", "..", "csiaddons")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.err = fmt.Errorf("build the published clients: %w: %s", err, out)
	}
	t.Logf("built the published clients in %s", time.Since(begin).Round(time.Millisecond))
}

// startCluster starts a cluster whose services of CSI-Addons want a token. It is removed, and proved to be gone, when the test ends.
func startCluster(t *testing.T, token string) *isolated.Cluster {
	t.Helper()
	if why := isolated.WhyUnavailable(); why != "" {
		t.Skip("skipped: " + why)
	}
	path, err := builder.Path(t.Context())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	args := []string{"--addons-token-file=" + file}
	c, err := isolated.Start(t.Context(), isolated.Options{Binary: path, ControllerArgs: args, NodeArgs: args})
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
