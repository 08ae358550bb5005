package node

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// exportSession registers whether this host has a session with a controller.
func (n *node) exportSession() error {
	err := n.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "holdfast_session_connected", Help: "1 while this host has a session with a controller; without one nothing that the log decides reaches it.",
	}, func() float64 {
		if n.client.Connected() {
			return 1
		}
		return 0
	}))
	if err != nil {
		return fmt.Errorf("register the metrics of the session: %w", err)
	}
	return nil
}
