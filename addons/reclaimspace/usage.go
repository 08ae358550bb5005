package reclaimspace

import (
	"context"
	"time"

	spec "github.com/csi-addons/spec/lib/go/reclaimspace"

	"github.com/holdfast-storage/holdfast/fsm"
)

// usageTimeout is how long a host may take to say what its pool allocates; a caller with less time left waits
// for half of that, so that it has its answer.
const usageTimeout = 5 * time.Second

// unchangedUsage is what the pool of the volume's host allocates for it, once for before and once for after:
// nothing was discarded in between. Both are nil when the host cannot be asked, or its pool cannot tell.
func (s *ControllerServer) unchangedUsage(ctx context.Context, id fsm.VolumeID) (before, after *spec.StorageConsumption) {
	var node fsm.NodeID
	known := false
	err := s.client.View(func(state *fsm.State) error {
		node, known = state.UsageHost(id)
		return nil
	})
	if err != nil || !known {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeToAsk(ctx))
	defer cancel()
	facts, err := s.hosts.VolumeFacts(ctx, node, id)
	if err != nil || !facts.AllocatedKnown {
		return nil, nil
	}
	return consumption(facts.Allocated), consumption(facts.Allocated)
}

func timeToAsk(ctx context.Context) time.Duration {
	deadline, has := ctx.Deadline()
	if !has {
		return usageTimeout
	}
	return min(usageTimeout, time.Until(deadline)/2)
}
