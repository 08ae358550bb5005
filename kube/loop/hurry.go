package loop

import (
	"time"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// hurry has nodes looked at more often for a while after a step was done for one: the next step waits for others, a host that confirms or
// Kubernetes that ends pods, and a pod waits for it. It is one duty's, and needs no lock.
type hurry struct {
	left int
	last map[string]plan.Failover // by node
}

const (
	hurryLooks = 20
	hurryPause = 500 * time.Millisecond
)

func (h *hurry) begin() { h.left = hurryLooks + 1 }

// note begins it where the step changes something, and is not the one that was next before too: that waits for others, maybe for ever.
func (h *hurry) note(node string, step plan.Failover) {
	if step.Kind >= plan.FailoverTakeOut && h.last[node] != step {
		h.begin()
	}
	if h.last == nil {
		h.last = map[string]plan.Failover{}
	}
	h.last[node] = step
}

func (h *hurry) looked() { h.left = max(h.left-1, 0) }

// pause is how long to wait before the next look, where it is usually so long.
func (h *hurry) pause(usual time.Duration) time.Duration {
	if h.left > 0 {
		return min(usual, hurryPause)
	}
	return usual
}
