package kube

import (
	"flag"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/daemon"
	"github.com/holdfast-storage/holdfast/cmd/observability"
	"github.com/holdfast-storage/holdfast/kube/loop"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

const metricsPage = "../../deploy/METRICS.md"

var writePage = flag.Bool("write", false, "write the loop's part of "+metricsPage)

// TestTheMetricsPageIsCurrent fails for a metric of the loop, a label or a text that differs from the page.
func TestTheMetricsPageIsCurrent(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, pki.MakeCA(filepath.Join(dir, "ca"), "test"))
	files, err := pki.Issue(filepath.Join(dir, "ca"), filepath.Join(dir, "c1"), pki.Identity{Role: pki.Controller, Name: "c1"}, time.Hour)
	require.NoError(t, err)
	creds, err := pki.Load(files)
	require.NoError(t, err)
	registry := daemon.Registry(daemon.Version())
	require.NoError(t, daemon.WatchCertificate(t.Context(), creds, registry, slog.New(slog.DiscardHandler)))
	loop.NewMetrics(registry)
	current, err := observability.UpdateSection(metricsPage, "The loop beside the controllers", registry, *writePage)
	require.NoError(t, err)
	require.True(t, current, "make it again: go test ./cmd/kube -run '^TestTheMetricsPageIsCurrent$' -write")
}
