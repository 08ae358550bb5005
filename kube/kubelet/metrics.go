package kubelet

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// The values of the label outcome.
const (
	registered = "registered"
	refused    = "refused"
)

// export registers the metrics.
func (r *Registration) export() error {
	r.outcomes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "holdfast_kubelet_registrations_total", Help: "How often kubelet registered this driver, and how often it refused to, by outcome.",
	}, []string{"outcome"})
	for _, outcome := range []string{registered, refused} {
		r.outcomes.WithLabelValues(outcome)
	}
	now := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "holdfast_kubelet_registered", Help: "1 when kubelet registered this driver since its socket was made, else 0.",
	}, func() float64 {
		if r.Err() != nil {
			return 0
		}
		return 1
	})
	if err := errors.Join(r.cfg.Metrics.Register(r.outcomes), r.cfg.Metrics.Register(now)); err != nil {
		return fmt.Errorf("register the metrics of kubelet's registration: %w", err)
	}
	return nil
}
