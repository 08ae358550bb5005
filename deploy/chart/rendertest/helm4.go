package rendertest

import (
	"fmt"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
)

// Helm4 renders a release as Helm 4 does: its templates' outputs by file name.
func Helm4(r Release) (map[string]string, error) {
	chart, err := loader.Load(ChartDir)
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	version, err := common.ParseKubeVersion(r.KubeVersion)
	if err != nil {
		return nil, err
	}
	if !chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, version.Version) {
		return nil, fmt.Errorf("the chart is for Kubernetes %s, not %s", chart.Metadata.KubeVersion, version.Version)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	capabilities.APIVersions = append(capabilities.APIVersions, r.APIs...)
	options := common.ReleaseOptions{Name: ReleaseName, Namespace: Namespace, Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(chart, r.Values, options, capabilities)
	if err != nil {
		return nil, err
	}
	if r.Cluster == nil {
		return engine.Render(chart, values)
	}
	return engine.RenderWithClientProvider(chart, values, r.Cluster)
}
