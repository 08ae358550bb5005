package rendertest

import (
	"fmt"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Helm3 renders a release as Helm 3 does: its templates' outputs by file name.
func Helm3(r Release) (map[string]string, error) {
	chart, err := loader.Load(ChartDir)
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	version, err := chartutil.ParseKubeVersion(r.KubeVersion)
	if err != nil {
		return nil, err
	}
	if !chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, version.Version) {
		return nil, fmt.Errorf("the chart is for Kubernetes %s, not %s", chart.Metadata.KubeVersion, version.Version)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	capabilities.APIVersions = append(capabilities.APIVersions, r.APIs...)
	options := chartutil.ReleaseOptions{Name: ReleaseName, Namespace: Namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(chart, r.Values, options, capabilities)
	if err != nil {
		return nil, err
	}
	if r.Cluster == nil {
		return engine.Render(chart, values)
	}
	return engine.RenderWithClientProvider(chart, values, r.Cluster)
}
