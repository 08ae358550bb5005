package loop

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the loop. Those of a loop that does not lead stand still.
type Metrics struct {
	leader   prometheus.Gauge
	last     *prometheus.GaugeVec
	refusals *prometheus.GaugeVec
	steps    *prometheus.CounterVec
	left     prometheus.Counter
	missing  prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		leader: prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_kube_leader", Help: "1 on the loop that leads, 0 on the others."}),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_kube_last_sync_timestamp_seconds", Help: "When all that a part looks at was last as the log says: nodes (failover, startup taints), guards, volumes (affinity and Events), or snapshot-metadata (where changed blocks are served).",
		}, []string{"part"}),
		refusals: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "holdfast_kube_refused_nodes", Help: "Nodes that are refused something now: failover, as it is not safe to be proven, or drain, as they must not stop.",
		}, []string{"duty"}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_kube_steps_total", Help: "Steps that were done, by duty (failover, startup, affinity, guard, snapshot-metadata) and outcome (ok, error).",
		}, []string{"duty", "step", "outcome"}),
		left:    prometheus.NewCounter(prometheus.CounterOpts{Name: "holdfast_kube_events_suppressed_total", Help: "Events that were left out for now, as there were too many."}),
		missing: prometheus.NewGauge(prometheus.GaugeOpts{Name: "holdfast_kube_guards_missing", Help: "Nodes whose guard against drains should run and does not."}),
	}
	registerer.MustRegister(m.leader, m.last, m.refusals, m.steps, m.left, m.missing)
	return m
}

// Leads notes whether this loop leads.
func (m *Metrics) Leads(leads bool) {
	m.leader.Set(0)
	if leads {
		m.leader.Set(1)
	}
}

func (m *Metrics) synced(part string) { m.last.WithLabelValues(part).Set(float64(time.Now().Unix())) }
func (m *Metrics) refused(duty string, nodes int) {
	m.refusals.WithLabelValues(duty).Set(float64(nodes))
}
func (m *Metrics) suppressed() { m.left.Inc() }

func (m *Metrics) step(duty, step string, err error) {
	if step == "none" || step == "wait" || step == "refuse" {
		return
	}
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.steps.WithLabelValues(duty, step, outcome).Inc()
}
