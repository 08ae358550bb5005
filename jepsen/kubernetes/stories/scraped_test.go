package stories

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const onePodMonitor = `
kind: PodMonitor
metadata: {name: holdfast-node, namespace: holdfast}
spec:
  selector: {matchLabels: {app.kubernetes.io/name: holdfast}}
  podMetricsEndpoints:
  - {port: metrics, interval: 30s, honorLabels: true, relabelings: [{sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node}]}
`

func monitorFrom(t *testing.T, manifest string) (m monitor) {
	t.Helper()
	object := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(manifest), &object))
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object, &m))
	return m
}

func TestAPodMonitorBecomesAJobOfItsPodsAlone(t *testing.T) {
	said, err := configOf([]monitor{monitorFrom(t, onePodMonitor)}, "/pods.json", "/alerts.json")
	require.NoError(t, err)
	var config struct {
		Scrape []struct {
			Name    string `json:"job_name"`
			Honor   bool   `json:"honor_labels"`
			Every   string `json:"scrape_interval"`
			Relabel []struct {
				Action  string
				Sources []string `json:"source_labels"`
				Regex   string
				Target  string `json:"target_label"`
			} `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	require.NoError(t, json.Unmarshal(said, &config))
	require.Len(t, config.Scrape, 1)
	job := config.Scrape[0]
	require.Equal(t, "podMonitor/holdfast/holdfast-node/0", job.Name)
	require.True(t, job.Honor)
	require.Equal(t, "30s", job.Every)
	require.Equal(t, []string{"__meta_kubernetes_pod_label_app_kubernetes_io_name"}, job.Relabel[0].Sources)
	require.Equal(t, "keep", job.Relabel[0].Action)
	last := job.Relabel[len(job.Relabel)-1]
	require.Equal(t, "node", last.Target)
	require.Equal(t, []string{"__meta_kubernetes_pod_node_name"}, last.Sources)
}

func TestPrometheusTakesTheConfiguration(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("skipped: promtool is missing: install the package prometheus")
	}
	dir := t.TempDir()
	pods, rules, config := filepath.Join(dir, "pods.json"), filepath.Join(dir, "alerts.json"), filepath.Join(dir, "prometheus.json")
	said, err := configOf([]monitor{monitorFrom(t, onePodMonitor)}, pods, rules)
	require.NoError(t, err)
	alerting, err := rulesOf(nil)
	require.NoError(t, err)
	for file, content := range map[string][]byte{config: said, rules: alerting, pods: []byte("[]")} {
		require.NoError(t, os.WriteFile(file, content, 0o600))
	}
	out, err := exec.Command(promtool, "check", "config", config).CombinedOutput()
	require.NoError(t, err, string(out))
}
