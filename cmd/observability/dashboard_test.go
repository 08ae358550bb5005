package observability

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

var writeDashboard = flag.Bool("write", false, "write the dashboard of the chart")

// exported is what the tests read of the file, as Grafana does.
type exported struct {
	SchemaVersion int `json:"schemaVersion"`
	Panels        []struct {
		ID      int    `json:"id"`
		Type    string `json:"type"`
		Title   string `json:"title"`
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ RefID, Expr string }
	} `json:"panels"`
}

func readDashboard(t *testing.T) exported {
	t.Helper()
	var d exported
	require.NoError(t, json.Unmarshal([]byte(readPage(t, filepath.Join(files, "dashboard.json"))), &d))
	return d
}

func TestTheDashboardIsCurrent(t *testing.T) {
	text, err := json.MarshalIndent(Dashboard(), "", " ")
	require.NoError(t, err)
	path := filepath.Join(files, "dashboard.json")
	if *writeDashboard {
		require.NoError(t, os.WriteFile(path, append(text, '\n'), 0o644))
	}
	require.Equal(t, readPage(t, path), string(text)+"\n", "make it again: go test ./cmd/observability -run '^TestTheDashboardIsCurrent$' -write")
}

func TestTheDashboardHasItsRowsAndNoPanelTwice(t *testing.T) {
	d := readDashboard(t)
	require.Equal(t, dashboardSchema, d.SchemaVersion)
	ids, cells, rows := map[int]bool{}, map[string]string{}, []string(nil)
	for _, p := range d.Panels {
		require.False(t, ids[p.ID], "panel %d is there twice", p.ID)
		ids[p.ID] = true
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else {
			require.NotEmpty(t, p.Targets, p.Title)
		}
		require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, dashboardWidth, p.Title)
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				cell := fmt.Sprint(x, ",", y)
				require.Empty(t, cells[cell], "%s lies on %s", p.Title, cells[cell])
				cells[cell] = p.Title
			}
		}
	}
	require.Equal(t, []string{"Overview", "Raft", "CSI", "Pools", "Hosts", "Replication", "Snapshots", "Process"}, rows)
}

// TestTheDashboardsExpressions names only metrics that there are, and each expression is one, as Prometheus reads it.
func TestTheDashboardsExpressions(t *testing.T) {
	metrics := ParseMetrics(readPage(t, metricsPage))
	var rules []map[string]string
	shown := ""
	for _, p := range readDashboard(t).Panels {
		for _, q := range p.Targets {
			require.Empty(t, CheckExpression(q.Expr, metrics), p.Title)
			shown += q.Expr + "\n"
			rules = append(rules, map[string]string{"record": fmt.Sprintf("panel:%d:%s", p.ID, q.RefID), "expr": strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")})
		}
	}
	for _, name := range []string{"holdfast_cluster_replicas", "holdfast_raft_fsync_seconds", "holdfast_pool_metadata_ratio", "holdfast_replica_out_of_sync_bytes"} {
		require.Contains(t, shown, name)
	}
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboard", "rules": rules}}})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yaml"), text, 0o600))
	requirePromtool(t, dir, "check", "rules", "rules.yaml")
}
