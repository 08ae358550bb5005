package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/holdfast-storage/holdfast/csi/identity"
	"github.com/holdfast-storage/holdfast/csi/server"
)

const (
	// supportedVersion is the version of CSI as kubelet compares it.
	supportedVersion = "1.0.0"
	// lookEvery is how often it is looked whether the socket is still there, and tried again when it could not be served.
	lookEvery = time.Second
	// maxReason bounds what is kept of kubelet's text, in bytes.
	maxReason = 1024
)

// Config says what is registered where.
type Config struct {
	// Socket is the path of the socket that is made for kubelet, in a folder of kubelet's that exists.
	Socket string
	// CSISocket is the path of the CSI socket of this process; Endpoint is its path as kubelet sees it, the same when empty.
	CSISocket, Endpoint string
	Log                 *slog.Logger
	Metrics             prometheus.Registerer
}

// Registration serves kubelet's registration.
type Registration struct {
	cfg       Config
	every     time.Duration // lookEvery; tests look more often
	mu        sync.Mutex
	state     error // why kubelet has not registered the driver; nil: it has
	outcomes  *prometheus.CounterVec
	lastError string // that was logged
}

// CheckSocket refuses a path at which kubelet would find no socket.
func CheckSocket(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return fmt.Errorf("%q is not an absolute path", path)
	case strings.HasPrefix(filepath.Base(path), "."):
		return fmt.Errorf("kubelet passes over %q, whose name begins with a dot", path)
	}
	if err := server.CheckSocketPath(path); err != nil {
		return fmt.Errorf("%q: %w", path, err)
	}
	return nil
}

// New makes nothing on the host yet.
func New(cfg Config) (*Registration, error) {
	if err := CheckSocket(cfg.Socket); err != nil {
		return nil, fmt.Errorf("register with kubelet: %w", err)
	}
	cfg.Endpoint = cmp.Or(cfg.Endpoint, cfg.CSISocket)
	r := &Registration{cfg: cfg, every: lookEvery, state: errNotAsked(cfg.Socket)}
	return r, r.export()
}

func errNotAsked(socket string) error {
	return fmt.Errorf("kubelet has not registered this driver yet: is %s the folder plugins_registry below its root folder?", filepath.Dir(socket))
}

// Err is why kubelet has not registered the driver; nil when it has.
func (r *Registration) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Run serves until ctx ends, from when the CSI socket answers on. The socket is made again when somebody removed it, and
// is gone when this returns. What is in its way is left alone, and tried again.
func (r *Registration) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.serve(ctx); err != nil && ctx.Err() == nil {
			r.set(fmt.Errorf("register with kubelet on %s: %w", r.cfg.Socket, err))
		}
		sleep(ctx, r.every)
	}
}

// serve serves one socket until it is removed or ctx ends.
func (r *Registration) serve(ctx context.Context) error {
	if err := r.awaitCSI(ctx); err != nil {
		return err
	}
	socket, err := server.ListenSocket(r.cfg.Socket)
	if err != nil {
		return err
	}
	r.set(errNotAsked(r.cfg.Socket))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		for socket.Present() && ctx.Err() == nil {
			sleep(ctx, r.every)
		}
	}()
	calls := grpc.NewServer()
	registerapi.RegisterRegistrationServer(calls, &service{registration: r})
	return errors.Join(server.Run(ctx, calls, socket), socket.Close())
}

// set keeps why the driver is not registered, and logs it when it is news.
func (r *Registration) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = err
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == r.lastError:
	case err != nil:
		r.cfg.Log.Warn("kubelet does not use this driver", "error", text)
	default:
		r.cfg.Log.Info("kubelet registered this driver", "driver", identity.Name, "endpoint", r.cfg.Endpoint)
	}
	r.lastError = text
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
