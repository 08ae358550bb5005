package rendertest

import (
	"fmt"
	"sync"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// chart3 is the chart, read once.
var chart3 = sync.OnceValues(func() (*chart.Chart, error) { return loader.Load(ChartDir) })

// Helm3 renders a release as Helm 3 does: its templates' outputs by file name.
func Helm3(r Release) (map[string]string, error) {
	loaded, err := chart3()
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	version, err := chartutil.ParseKubeVersion(r.KubeVersion)
	if err != nil {
		return nil, err
	}
	if !chartutil.IsCompatibleRange(loaded.Metadata.KubeVersion, version.Version) {
		return nil, fmt.Errorf("the chart is for Kubernetes %s, not %s", loaded.Metadata.KubeVersion, version.Version)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	capabilities.APIVersions = append(capabilities.APIVersions, r.APIs...)
	options := chartutil.ReleaseOptions{Name: ReleaseName, Namespace: Namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(loaded, r.Values, options, capabilities)
	if err != nil {
		return nil, err
	}
	if r.Cluster == nil {
		return engine.Render(loaded, values)
	}
	return engine.RenderWithClientProvider(loaded, values, r.Cluster)
}
