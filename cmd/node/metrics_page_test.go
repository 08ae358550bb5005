package node

import (
	"context"
	"flag"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/observability"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/executor/luks"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const metricsPage = "../../deploy/METRICS.md"

var writePage = flag.Bool("write", false, "write the nodes' part of "+metricsPage)

// newUnprivilegedNode has all that registers metrics, but no device of its host: its pool is in memory.
func newUnprivilegedNode(t *testing.T) *node {
	dir := t.TempDir()
	require.NoError(t, pki.MakeCA(filepath.Join(dir, "ca"), "test"))
	files, err := pki.Issue(filepath.Join(dir, "ca"), filepath.Join(dir, "n1"), pki.Identity{Role: pki.Node, Name: "n1"}, time.Hour)
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	kubelet := kubeletFlags{registration: filepath.Join(dir, "reg.sock")}
	n := &node{options: &options{dataDir: filepath.Join(dir, "data"), kubeletFlags: kubelet, endpoints: []string{"127.0.0.1:1"}, site: fsm.DefaultSite, freezeMax: 10 * time.Second}, log: log, registry: daemon.Registry(daemon.Version())}
	n.Files = files
	require.NoError(t, n.loadIdentity())
	runner := run.New()
	n.components = &components{encryptor: luks.New(runner, nil), pools: []pool{{Backend: backendtest.NewFakeBackend(), name: "memory"}}}
	require.NoError(t, n.components.openIdentity(n.dataDir))
	t.Cleanup(func() { require.NoError(t, n.close()) })
	require.NoError(t, n.components.openMounter([]string{dir}, n.mountFlags.Policy(), runner))
	require.NoError(t, n.components.openFreezer(n.dataDir))
	require.NoError(t, n.openExecutor())
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	require.NoError(t, daemon.WatchCertificate(ctx, n.creds, n.registry, log))
	require.NoError(t, n.openCSI())
	n.CSIEndpoint = "unix://" + filepath.Join(dir, "csi.sock")
	require.NoError(t, n.openRegistration())
	return n
}

// TestTheMetricsPageIsCurrent fails for a metric of a node, a label or a text that differs from the page.
func TestTheMetricsPageIsCurrent(t *testing.T) {
	n := newUnprivilegedNode(t)
	current, err := observability.UpdateSection(metricsPage, "Nodes", n.registry, *writePage)
	require.NoError(t, err)
	require.True(t, current, "make it again: go test ./cmd/node -run '^TestTheMetricsPageIsCurrent$' -write")
}
