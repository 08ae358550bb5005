package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode"
)

// source is what the metrics are read from.
type source interface {
	View(func(*fsm.State) error) error
	Fork() *fsm.State
	Watch(raftnode.Interest) *raftnode.Watch
}

// pools tells the state's pools when it is scraped.
type pools struct {
	source source
	capacity, reserved, volumes,
	nodes *prometheus.Desc
}

func newPools(s source) *pools {
	labels := []string{"node", "pool"}
	return &pools{source: s,
		capacity: prometheus.NewDesc("holdfast_cluster_pool_capacity_bytes", "A pool's capacity as it registered.", labels, nil),
		reserved: prometheus.NewDesc("holdfast_cluster_pool_reserved_bytes", "What volumes reserve of a pool.", labels, nil),
		volumes:  prometheus.NewDesc("holdfast_cluster_pool_volumes", "Volumes that have a replica in a pool.", labels, nil),
		nodes:    prometheus.NewDesc("holdfast_cluster_nodes", "Hosts that the log knows, by state.", []string{"state"}, nil),
	}
}

// Describe is prometheus.Collector's.
func (p *pools) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.capacity, p.reserved, p.volumes, p.nodes} {
		out <- d
	}
}

// Collect is prometheus.Collector's.
func (p *pools) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	states := map[fsm.NodeState]int{fsm.NodeReachable: 0, fsm.NodeUnreachable: 0, fsm.NodeLost: 0}
	_ = p.source.View(func(st *fsm.State) error { // a member that is not open yet has no pools
		for n := range st.Nodes() {
			states[n.State]++
			for _, pool := range n.Pools {
				reserved, volumes := st.PoolUse(pool.ID)
				gauge(p.capacity, float64(pool.Capacity), string(n.ID), string(pool.ID))
				gauge(p.reserved, float64(reserved), string(n.ID), string(pool.ID))
				gauge(p.volumes, float64(volumes), string(n.ID), string(pool.ID))
			}
		}
		return nil
	})
	gauge(p.nodes, float64(states[fsm.NodeReachable]), "reachable")
	gauge(p.nodes, float64(states[fsm.NodeUnreachable]), "unreachable")
	gauge(p.nodes, float64(states[fsm.NodeLost]), "lost")
}

// operations counts how the work of hosts ended, as this member applied it.
type operations struct {
	known map[fsm.VolumeID]fsm.Operation
	ended *prometheus.CounterVec
	open  *prometheus.GaugeVec
}

// countOperations registers the metrics of the state and keeps them until ctx ends.
func countOperations(ctx context.Context, s source, registerer prometheus.Registerer) error {
	o := &operations{
		known: map[fsm.VolumeID]fsm.Operation{},
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_operations_ended_total",
			Help: "Operations that ended while this controller watched, by kind and outcome.",
		}, []string{"kind", "outcome"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_operations", Help: "Operations in the state, by kind and state.",
		}, []string{"kind", "state"}),
	}
	if err := errors.Join(registerer.Register(o.ended), registerer.Register(o.open), registerer.Register(newPools(s))); err != nil {
		return fmt.Errorf("register the metrics of the state: %w", err)
	}
	watch := s.Watch(raftnode.Interest{All: true})
	defer watch.Close()
	o.all(s, false)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-watch.C:
		}
		if volumes, all := watch.Take(); all {
			o.all(s, true)
		} else {
			o.these(s, volumes)
		}
		select { // what comes meanwhile is looked at together
		case <-ctx.Done():
			return nil
		case <-time.After(countEvery):
		}
	}
}

// countEvery bounds how often the counts are brought up to date: nobody scrapes
// them more often, and Apply waits for nobody who looks at a fork.
const countEvery = 500 * time.Millisecond

func (o *operations) these(s source, volumes []fsm.VolumeID) {
	st := s.Fork()
	for _, id := range volumes {
		o.look(st, id)
	}
}

// all looks at every volume that has or had an operation. What ended unseen, in
// a restored snapshot, is counted too.
func (o *operations) all(s source, count bool) {
	st := s.Fork()
	for id := range o.known {
		o.look(st, id)
	}
	for v := range st.Operations() {
		o.look(st, v.ID)
	}
	if !count {
		o.ended.Reset()
	}
}

// look compares a volume's operation with what was known of it.
func (o *operations) look(st *fsm.State, id fsm.VolumeID) {
	before, had := o.known[id]
	var now fsm.Operation
	if v, ok := st.Volume(id); ok && v.Operation != nil {
		now = *v.Operation
	}
	if had && before.ID == now.ID && before.State == now.State {
		return
	}
	if had {
		o.open.WithLabelValues(kinds[before.Kind], states[before.State]).Dec()
	}
	if had && before.State == fsm.OpRunning && before.ID != now.ID {
		o.ended.WithLabelValues(kinds[before.Kind], "done").Inc()
	}
	delete(o.known, id)
	if now.ID == 0 {
		return
	}
	o.known[id] = now
	o.open.WithLabelValues(kinds[now.Kind], states[now.State]).Inc()
	if now.State != fsm.OpRunning {
		o.ended.WithLabelValues(kinds[now.Kind], states[now.State]).Inc()
	}
}

var kinds = map[fsm.OperationKind]string{fsm.OpCreate: "create", fsm.OpDelete: "delete", fsm.OpTeardown: "teardown"}

var states = map[fsm.OperationState]string{fsm.OpRunning: "running", fsm.OpFailed: "failed", fsm.OpCancelled: "cancelled"}
