package admin

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// poolNearlyFull is the used share of a pool, in percent, from which its condition reports it.
const poolNearlyFull = 80

// measure adds what hosts measure now to the pools as the log records them.
func (s *Server) measure(ctx context.Context, nodes []*adminpb.Node) {
	if s.Pools == nil {
		return
	}
	measured := s.Pools(ctx)
	for _, n := range nodes {
		for _, p := range n.GetPools() {
			if state, ok := measured[fsm.PoolID(p.GetId())]; ok {
				p.Measured, p.FreeBytes, p.Condition = true, state.Free, state.condition()
			}
		}
	}
}

// condition says what an operator should know of a pool, empty when there is nothing.
func (p PoolState) condition() string {
	if p.Absent {
		return "absent: " + cmp.Or(p.Detail, "it is not mounted, or lost its id")
	}
	var all []string
	if used := p.Capacity - p.Free; p.Capacity > 0 && used/poolNearlyFull >= p.Capacity/100 {
		all = append(all, fmt.Sprintf("%d %% full", used/max(1, p.Capacity/100)))
	}
	if p.Copies {
		all = append(all, "snapshots and clones are copies")
	}
	return strings.Join(all, ", ")
}
