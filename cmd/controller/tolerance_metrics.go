package controller

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/admin"
	"github.com/holdfast-storage/holdfast/fsm"
)

// membersTimeout bounds what a scrape waits for the other members.
const membersTimeout = time.Second

// toleranceCollector says when it is scraped how many failures the cluster tolerates now.
type toleranceCollector struct {
	fork                func() *fsm.State
	members             func(ctx context.Context, hashAt uint64) []admin.Member
	tolerated, withLoss *prometheus.Desc
	withoutRedundancy   *prometheus.Desc
	mu                  sync.Mutex
	index               uint64               // of the state that was counted last
	last                fsm.ClusterTolerance // of that state
}

func newToleranceCollector(fork func() *fsm.State, members func(context.Context, uint64) []admin.Member) *toleranceCollector {
	return &toleranceCollector{fork: fork, members: members,
		tolerated: prometheus.NewDesc("holdfast_cluster_failures_tolerated",
			"Hosts, zones, sites or controllers that may stop now, whichever they are, so that every replicated volume keeps a whole copy and can be used, and the log decides.", []string{"kind"}, nil),
		withLoss: prometheus.NewDesc("holdfast_cluster_failures_without_loss",
			"Hosts, zones or sites that may stop now, whichever they are, so that every replicated volume keeps a whole copy.", []string{"kind"}, nil),
		withoutRedundancy: prometheus.NewDesc("holdfast_cluster_volumes_without_redundancy",
			"Volumes of which one host has the only whole copy: replicated ones, and local ones, which have one by design.", []string{"kind"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *toleranceCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.tolerated, c.withLoss, c.withoutRedundancy} {
		out <- d
	}
}

// Collect implements prometheus.Collector. It reads a copy, so that the log does not wait for it.
func (c *toleranceCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, kind string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), kind)
	}
	all := c.count()
	for kind, t := range map[string]fsm.Tolerance{"node": all.Node, "zone": all.Zone, "site": all.Site} {
		gauge(c.tolerated, min(t.Loss, t.Use), kind)
		gauge(c.withLoss, t.Loss, kind)
	}
	gauge(c.withoutRedundancy, int(all.WithoutRedundancy), "replicated") //nolint:gosec // a count
	gauge(c.withoutRedundancy, int(all.Local), "local")                  //nolint:gosec // a count
	ctx, cancel := context.WithTimeout(context.Background(), membersTimeout)
	defer cancel()
	q := admin.QuorumWithout(c.members(ctx, 0), func(*admin.Member) bool { return false })
	gauge(c.tolerated, q.Tolerated(), "member")
}

// count is the tolerance of the state, which is counted once for each index.
func (c *toleranceCollector) count() fsm.ClusterTolerance {
	st := c.fork()
	c.mu.Lock()
	defer c.mu.Unlock()
	if index := st.Cluster().Index; index == 0 || index != c.index {
		c.index, c.last = index, st.ClusterTolerance()
	}
	return c.last
}
