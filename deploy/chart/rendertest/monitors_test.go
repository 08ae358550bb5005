package rendertest

import (
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
)

// What is scraped is a port of the pods, and a label of a metric stays what its program said: a controller's metrics name other nodes than
// its own, and the namespaces of claims.
func TestMonitorsKeepTheLabelsOfMetrics(t *testing.T) {
	list := objectsOfSet(t, "testdata/golden/everything-1.37.yaml")
	named := map[string]bool{}
	for _, spec := range podSpecs(list) {
		for _, c := range spec.Containers {
			for _, port := range c.Ports {
				named[port.Name] = true
			}
		}
	}
	scraped := map[string]int{}
	for _, object := range list {
		monitor, ok := object.(*monitoringv1.PodMonitor)
		if !ok {
			continue
		}
		for _, endpoint := range monitor.Spec.PodMetricsEndpoints {
			require.NotNil(t, endpoint.Port)
			require.True(t, named[*endpoint.Port], *endpoint.Port)
			require.True(t, endpoint.HonorLabels, monitor.Name)
			scraped[*endpoint.Port]++
		}
	}
	require.Equal(t, map[string]int{"metrics": 2, "kube-metrics": 1}, scraped)
}
