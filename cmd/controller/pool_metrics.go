package controller

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// stateReader is what the metrics are read from.
type stateReader interface {
	View(func(*fsm.State) error) error
	Fork() *fsm.State
	Watch(raftnode.Interest) *raftnode.Watch
}

// poolCollector reports the state's pools when it is scraped.
type poolCollector struct {
	state stateReader
	capacity, reserved, reservable, volumes,
	nodes, fencedNodes, snapshots, groups *prometheus.Desc
}

func newPoolCollector(s stateReader) *poolCollector {
	labels := []string{"node", "pool"}
	return &poolCollector{state: s,
		capacity:    prometheus.NewDesc("holdfast_cluster_pool_capacity_bytes", "A pool's capacity as it registered.", labels, nil),
		reserved:    prometheus.NewDesc("holdfast_cluster_pool_reserved_bytes", "What volumes reserve of a pool.", labels, nil),
		reservable:  prometheus.NewDesc("holdfast_cluster_pool_reservable_bytes", "What volumes may reserve of a pool: its capacity times --overcommit. Nothing is placed there beyond it.", labels, nil),
		volumes:     prometheus.NewDesc("holdfast_cluster_pool_volumes", "Volumes that have a replica in a pool.", labels, nil),
		nodes:       prometheus.NewDesc("holdfast_cluster_nodes", "Hosts that the log knows, by state.", []string{"state"}, nil),
		fencedNodes: prometheus.NewDesc("holdfast_cluster_fenced_nodes", "Hosts that are fenced, or on their way back from it.", nil, nil),
		snapshots:   prometheus.NewDesc("holdfast_cluster_snapshots", "Snapshots that the log knows, in all phases.", nil, nil),
		groups:      prometheus.NewDesc("holdfast_cluster_group_snapshots", "Group snapshots that the log knows, in all phases.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (p *poolCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.capacity, p.reserved, p.reservable, p.volumes, p.nodes, p.fencedNodes, p.snapshots, p.groups} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (p *poolCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	states := map[fsm.NodeState]int{fsm.NodeReachable: 0, fsm.NodeUnreachable: 0, fsm.NodeLost: 0}
	fenced := 0
	_ = p.state.View(func(st *fsm.State) error { // a member that is not open yet has no pools
		for n := range st.Nodes() {
			states[n.State]++
			if n.IsFenced() {
				fenced++
			}
			for _, pool := range n.Pools {
				reserved, volumes := st.PoolUse(pool.ID)
				gauge(p.capacity, float64(pool.Capacity), string(n.ID), string(pool.ID))
				gauge(p.reserved, float64(reserved), string(n.ID), string(pool.ID))
				gauge(p.reservable, float64(pool.Capacity)*float64(pool.OvercommitPercent)/100, string(n.ID), string(pool.ID))
				gauge(p.volumes, float64(volumes), string(n.ID), string(pool.ID))
			}
		}
		gauge(p.snapshots, float64(st.SnapshotCount()))
		groups := 0
		for range st.GroupSnapshots("") {
			groups++
		}
		gauge(p.groups, float64(groups))
		return nil
	})
	gauge(p.nodes, float64(states[fsm.NodeReachable]), "reachable")
	gauge(p.nodes, float64(states[fsm.NodeUnreachable]), "unreachable")
	gauge(p.nodes, float64(states[fsm.NodeLost]), "lost")
	gauge(p.fencedNodes, float64(fenced))
}
