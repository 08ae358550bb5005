package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// callMetrics counts calls by method and code, and measures how long they take.
type callMetrics struct {
	calls   *prometheus.CounterVec
	latency *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*callMetrics, error) {
	m := &callMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "holdfast_csi_calls_total",
			Help: "CSI calls answered, by method and gRPC code.",
		}, []string{"method", "code"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "holdfast_csi_call_duration_seconds",
			Help:    "How long CSI calls took, by method.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18), // 0.5 ms to 65 s
		}, []string{"method"}),
	}
	if registerer == nil {
		return m, nil
	}
	if err := errors.Join(registerer.Register(m.calls), registerer.Register(m.latency)); err != nil {
		return nil, fmt.Errorf("register the metrics of CSI calls: %w", err)
	}
	return m, nil
}

func (m *callMetrics) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	start := time.Now()
	resp, err := next(ctx, req)
	m.latency.WithLabelValues(method(info)).Observe(time.Since(start).Seconds())
	m.calls.WithLabelValues(method(info), status.Code(err).String()).Inc()
	return resp, err
}
