package controller

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// auditMetrics keep the result of the last audit that this controller made. No scrape makes one: an audit asks every host.
type auditMetrics struct {
	findings, ended *prometheus.Desc

	mu   sync.Mutex
	at   time.Time // zero: there was none since this controller started
	last map[string]int
}

func newAuditMetrics() *auditMetrics {
	return &auditMetrics{
		findings: prometheus.NewDesc("holdfast_audit_findings", "What the last audit that this controller made found, by kind: orphan (on a host only), missing (in the log only), wrong, or a host that could not be asked (unknown). No series before the first audit.", []string{"kind"}, nil),
		ended:    prometheus.NewDesc("holdfast_audit_timestamp_seconds", "When the last audit that this controller made ended, in seconds since 1970. No series before the first.", nil, nil),
	}
}

// note keeps the result of an audit that ended now.
func (a *auditMetrics) note(result *adminpb.AuditResponse, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = now
	a.last = map[string]int{
		"orphan": len(result.GetOrphans()), "missing": len(result.GetMissing()), "wrong": len(result.GetWrong()), "unknown": len(result.GetUnknown()),
	}
}

// Describe implements prometheus.Collector.
func (a *auditMetrics) Describe(out chan<- *prometheus.Desc) { out <- a.findings; out <- a.ended }

// Collect implements prometheus.Collector.
func (a *auditMetrics) Collect(out chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() {
		return
	}
	for kind, n := range a.last {
		out <- prometheus.MustNewConstMetric(a.findings, prometheus.GaugeValue, float64(n), kind)
	}
	out <- prometheus.MustNewConstMetric(a.ended, prometheus.GaugeValue, float64(a.at.UnixNano())/1e9)
}
