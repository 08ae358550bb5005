package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/executor"
)

// metadataCollector reports how full the metadata of pools are, of those that have any.
type metadataCollector struct {
	pools []executor.Backend
	ratio *prometheus.Desc
}

func newMetadataCollector(pools []executor.Backend) *metadataCollector {
	return &metadataCollector{pools: pools, ratio: prometheus.NewDesc("holdfast_pool_metadata_ratio",
		"Used share of the space for a thin pool's maps, 0 to 1; a pool of files has none.", []string{"pool"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *metadataCollector) Describe(out chan<- *prometheus.Desc) { out <- c.ratio }

// Collect implements prometheus.Collector.
func (c *metadataCollector) Collect(out chan<- prometheus.Metric) {
	for _, pool := range c.pools {
		measurer, ok := pool.(executor.MetadataMeasurer)
		if !ok {
			continue
		}
		if ratio, known := measurer.MetadataRatio(); known {
			out <- prometheus.MustNewConstMetric(c.ratio, prometheus.GaugeValue, ratio, string(pool.ID()))
		}
	}
}
