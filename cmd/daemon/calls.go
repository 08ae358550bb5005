package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// CountCalls counts the unary calls of a listener by method and code, and
// measures how long they take.
func CountCalls(registerer prometheus.Registerer, listener string) (grpc.UnaryServerInterceptor, error) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_" + listener + "_calls_total", Help: "Calls answered, by method and gRPC code.",
	}, []string{"method", "code"})
	latency := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "holdfast_" + listener + "_call_duration_seconds", Help: "How long calls took, by method.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18), // 0.5 ms to 65 s
	}, []string{"method"})
	if err := errors.Join(registerer.Register(calls), registerer.Register(latency)); err != nil {
		return nil, fmt.Errorf("register the metrics of calls: %w", err)
	}
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		start := time.Now()
		resp, err := next(ctx, req)
		method := info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]
		latency.WithLabelValues(method).Observe(time.Since(start).Seconds())
		calls.WithLabelValues(method, status.Code(err).String()).Inc()
		return resp, err
	}, nil
}
