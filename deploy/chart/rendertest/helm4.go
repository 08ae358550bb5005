package rendertest

import (
	"fmt"
	"sync"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/engine"
)

// chart4 is the chart, read once.
var chart4 = sync.OnceValues(func() (*chart.Chart, error) { return loader.Load(ChartDir) })

// Helm4 renders a release as Helm 4 does: its templates' outputs by file name.
func Helm4(r Release) (map[string]string, error) {
	loaded, err := chart4()
	if err != nil {
		return nil, fmt.Errorf("load the chart: %w", err)
	}
	version, err := common.ParseKubeVersion(r.KubeVersion)
	if err != nil {
		return nil, err
	}
	if !chartutil.IsCompatibleRange(loaded.Metadata.KubeVersion, version.Version) {
		return nil, fmt.Errorf("the chart is for Kubernetes %s, not %s", loaded.Metadata.KubeVersion, version.Version)
	}
	capabilities := common.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	capabilities.APIVersions = append(capabilities.APIVersions, r.APIs...)
	options := common.ReleaseOptions{Name: ReleaseName, Namespace: Namespace, Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(loaded, r.Values, options, capabilities)
	if err != nil {
		return nil, err
	}
	if r.Cluster == nil {
		return engine.Render(loaded, values)
	}
	return engine.RenderWithClientProvider(loaded, values, r.Cluster)
}
