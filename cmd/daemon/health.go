package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-storage/holdfast/executor/hostcheck"
)

// Registry is a registry with the process's and the Go runtime's metrics, whether the host's clock is
// set, and what is built: version in a label.
func Registry(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "holdfast_build_info", Help: "Always 1; the label has the version.",
		ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	clock := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "holdfast_clock_synchronised", Help: "1 when something sets this host's clock, as its kernel knows it.",
	}, func() float64 {
		if hostcheck.ClockSynchronised() {
			return 1
		}
		return 0
	})
	r.MustRegister(build, clock, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Health serves /metrics, /healthz (the process runs), /readyz (it serves) and gates until Close.
type Health struct {
	server  *http.Server
	address string
}

// ServeHealth begins to serve on the listener. ready says why
// the process does not serve, nil when it does. profile adds Go's profiles, for loopback only. gates are served beside them.
func ServeHealth(listener net.Listener, registry *prometheus.Registry, ready func() error, profile bool, logger *slog.Logger, gates ...Gate) *Health {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{Registry: registry}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, nil) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, ready()) })
	for _, g := range gates {
		mux.Handle("GET "+g.Path, g)
	}
	if profile {
		mux.HandleFunc("GET /debug/pprof/", onlyLoopback(pprof.Index))
		mux.HandleFunc("GET /debug/pprof/profile", onlyLoopback(pprof.Profile))
	}
	h := &Health{address: listener.Addr().String(), server: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}}
	go func() {
		if err := h.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the metrics and health listener ended", "error", err)
		}
	}()
	return h
}

func answer(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = fmt.Fprintln(w, err) // the client may have disconnected
		return
	}
	_, _ = fmt.Fprintln(w, "ok")
}

// Addr is what the listener is bound to.
func (h *Health) Addr() string { return h.address }

// Close closes the listener at once: an interrupted scrape loses nothing.
func (h *Health) Close() { _ = h.server.Close() }
