package raftnode

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// dialer keeps one connection to each peer.
type dialer struct {
	cfg *Config

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn
	closed bool
}

func newDialer(cfg *Config) *dialer {
	return &dialer{cfg: cfg, conns: make(map[string]*grpc.ClientConn)}
}

func (d *dialer) dial(addr string) (*grpc.ClientConn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, ErrShutdown
	}
	if conn := d.conns[addr]; conn != nil {
		return conn, nil
	}
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(credentials.NewTLS(d.cfg.Credentials.Client(pki.Controller))),
		// Soon: a member that restarts is wanted at once.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 25 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond},
			MinConnectTimeout: 2 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithContextDialer(d.cfg.dial),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("dial the member at %s: %w", addr, err)
	}
	d.conns[addr] = conn
	return conn, nil
}

func (d *dialer) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	var errs []error
	for _, conn := range d.conns {
		errs = append(errs, conn.Close())
	}
	d.conns = nil
	return errors.Join(errs...)
}
