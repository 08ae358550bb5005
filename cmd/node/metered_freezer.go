package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// meteredFreezer is a freezer that measures how long filesystems are frozen (S19).
type meteredFreezer struct {
	executor.Freezer
	seconds prometheus.Histogram

	mu      sync.Mutex
	longest time.Duration
}

func newMeteredFreezer(f executor.Freezer, registry prometheus.Registerer) (*meteredFreezer, error) {
	m := &meteredFreezer{Freezer: f, seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "holdfast_freeze_seconds", Help: "How long filesystems were frozen for a snapshot.",
		Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
	})}
	longest := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "holdfast_freeze_longest_seconds", Help: "The longest freeze of a filesystem since this process started.",
	}, func() float64 {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.longest.Seconds()
	})
	for _, c := range []prometheus.Collector{m.seconds, longest} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register the metrics of freezes: %w", err)
		}
	}
	return m, nil
}

// Freeze implements executor.Freezer.
func (m *meteredFreezer) Freeze(ctx context.Context, id fsm.VolumeID, path string, until time.Time) (executor.Freeze, error) {
	active, err := m.Freezer.Freeze(ctx, id, path, until)
	if err != nil {
		return nil, err
	}
	return &meteredFreeze{Freeze: active, freezer: m}, nil
}

// meteredFreeze is counted once, however often it is thawed.
type meteredFreeze struct {
	executor.Freeze
	freezer *meteredFreezer
	once    sync.Once
}

// Thaw implements executor.Freeze.
func (f *meteredFreeze) Thaw(ctx context.Context) error {
	err := f.Freeze.Thaw(ctx)
	if err == nil {
		f.once.Do(func() { f.freezer.observe(f.Elapsed()) })
	}
	return err
}

func (m *meteredFreezer) observe(d time.Duration) {
	m.seconds.Observe(d.Seconds())
	m.mu.Lock()
	defer m.mu.Unlock()
	m.longest = max(m.longest, d)
}
