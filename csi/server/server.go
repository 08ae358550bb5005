package server

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

const (
	maxMessage         = 4 << 20 // bytes, each way
	maxConcurrentCalls = 1024    // at once per connection
	defaultTimeout     = 2 * time.Minute
	stopTimeout        = 10 * time.Second
)

// Config is what a gRPC server for CSI needs.
type Config struct {
	// Logger gets a line for each call, without secrets.
	Logger *slog.Logger
	// Metrics gets the counters and latencies of calls; nil: none are kept.
	Metrics prometheus.Registerer
	// Interceptors of the process see each unary request after the limits of CSI were applied to it.
	Interceptors []grpc.UnaryServerInterceptor
	// Timeout bounds calls that come without a deadline; 0: two minutes.
	Timeout time.Duration
}

// New is a gRPC server on which the CSI services of a process are registered.
func New(cfg Config) (*grpc.Server, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	callMetrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	unary := []grpc.UnaryServerInterceptor{logCalls(cfg.Logger), callMetrics.intercept, convertErrors, limitDeadline(cfg.Timeout), recoverPanics(cfg.Logger), checkLimits}
	return grpc.NewServer(
		grpc.ChainUnaryInterceptor(append(unary, cfg.Interceptors...)...),
		grpc.ChainStreamInterceptor(interceptStreams(logCalls(cfg.Logger), callMetrics.intercept, convertErrors, recoverPanics(cfg.Logger), checkLimits)),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(maxConcurrentCalls),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	), nil
}

// Run serves until ctx ends, then lets calls under way finish for a while. The
// socket is gone when it returns. The error is nil when ctx ended it.
func Run(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	stopped := make(chan struct{})
	served := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ctx.Done():
			stop(server)
		case <-served:
		}
	}()
	err := server.Serve(listener)
	close(served)
	<-stopped
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func stop(server *grpc.Server) {
	force := time.AfterFunc(stopTimeout, server.Stop)
	defer force.Stop()
	server.GracefulStop()
}
