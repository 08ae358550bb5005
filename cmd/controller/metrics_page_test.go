package controller

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/observability"
)

const metricsPage = "../../deploy/METRICS.md"

var writePage = flag.Bool("write", false, "write the controllers' part of "+metricsPage)

// TestTheMetricsPageIsCurrent fails for a metric of a controller, a label or a text that differs from the page.
func TestTheMetricsPageIsCurrent(t *testing.T) {
	b := newTestController(t)
	b.opts.backup.To, b.opts.backup.interval = filepath.Join(b.dir, "backups"), time.Hour
	require.NoError(t, os.Mkdir(b.opts.backup.To, 0o700))
	c := b.start()
	defer b.stopAndWait()
	b.checkCSI()
	current, err := observability.UpdateSection(metricsPage, "Controllers", c.registry, *writePage)
	require.NoError(t, err)
	require.True(t, current, "make it again: go test ./cmd/controller -run '^TestTheMetricsPageIsCurrent$' -write")
}
