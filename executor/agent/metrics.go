package agent

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// metrics are the host's. Without a registry they are counted but not exported.
type metrics struct {
	registry prometheus.Registerer
	steps    *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	reports  *prometheus.CounterVec
	reclaims *prometheus.CounterVec
	freed    prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		registry: registry,
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_executor_steps_total", Help: "Steps done to volumes of this host, by kind and outcome.",
		}, []string{"step", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "holdfast_executor_step_seconds", Help: "How long steps took.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 3, 12),
		}, []string{"step"}),
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_executor_reports_total", Help: "Reports proposed to the log, by outcome.",
		}, []string{"outcome"}),
	}
	m.reclaims = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_reclaims_total", Help: "Reclaims of space that ended on this host, by outcome: done, refused or failed.",
	}, []string{"outcome"})
	m.freed = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "holdfast_reclaimed_bytes_total", Help: "What reclaims gave back, in bytes, where the pool tells how much a volume occupies.",
	})
	if registry != nil {
		registry.MustRegister(m.steps, m.seconds, m.reports, m.reclaims, m.freed)
	}
	return m
}

// exportGauges registers the gauges that are computed at each scrape.
func (m *metrics) exportGauges(a *Agent) {
	if m.registry == nil {
		return
	}
	count := func(name, help string, of func(*volume) int) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			a.mu.Lock()
			defer a.mu.Unlock()
			total := 0
			for _, v := range a.volumes {
				total += of(v)
			}
			return float64(total)
		}))
	}
	count("holdfast_executor_outbox_records", "Records of teardowns that are not yet in the log.", func(v *volume) int { return len(v.recordCopy.PendingTeardowns) })
	count("holdfast_executor_staged_volumes", "Volumes that are staged on this host.", func(v *volume) int { return boolToInt(v.recordCopy.Staging != nil) })
	count("holdfast_executor_parked_volumes", "Volumes parked because a command on their device cannot be killed.", func(v *volume) int { return boolToInt(v.parked != nil) })
	count("holdfast_executor_held_volumes", "Volumes of which a snapshot is being taken, or that are frozen for a group snapshot.", func(v *volume) int { return boolToInt(v.snapshotting || v.freezeHold != nil) })
	m.registry.MustRegister(newMetadataCollector(a.Pools), newReplicaCollector(a))
	for _, pool := range a.Pools {
		labels := prometheus.Labels{"pool": string(pool.ID())}
		gauge := func(name, help string, of func(executor.PoolFacts) float64) {
			m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
				func() float64 { return of(pool.Facts(context.Background())) }))
		}
		gauge("holdfast_pool_free_bytes", "Free bytes of the filesystem under the pool.", func(f executor.PoolFacts) float64 { return float64(f.Free) })
		gauge("holdfast_pool_capacity_bytes", "Size of the filesystem under the pool.", func(f executor.PoolFacts) float64 { return float64(f.Capacity) })
		gauge("holdfast_pool_present", "1 when the pool is mounted and has its id.", func(f executor.PoolFacts) float64 { return float64(boolToInt(!f.Absent)) })
		if b, ok := pool.(executor.SnapshotBackend); ok {
			m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "holdfast_pool_shares_blocks", Help: "1 when the pool makes snapshots and clones without copying.", ConstLabels: labels,
			}, func() float64 { return float64(boolToInt(b.SharesBlocks())) }))
		}
	}
}

func boolToInt(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (m *metrics) observeStep(kind plan.StepKind, began time.Time, err error) {
	m.steps.WithLabelValues(string(kind), outcomeLabel(err)).Inc()
	m.seconds.WithLabelValues(string(kind)).Observe(time.Since(began).Seconds())
}

// observeReclaim counts a reclaim that ended. What was written meanwhile may outweigh what it gave back.
func (m *metrics) observeReclaim(usage executor.SpaceUsage, err error) {
	var refused *fsm.Rejection
	switch {
	case err == nil:
		m.reclaims.WithLabelValues("done").Inc()
	case errors.As(err, &refused):
		m.reclaims.WithLabelValues("refused").Inc()
	default:
		m.reclaims.WithLabelValues("failed").Inc()
	}
	if err == nil && usage.Known {
		m.freed.Add(float64(max(0, usage.Before-usage.After)))
	}
}

func outcomeLabel(err error) string {
	if err != nil {
		return "failed"
	}
	return "done"
}
