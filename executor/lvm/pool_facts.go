package lvm

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
)

// Facts measures the pool. One that refuses new volumes reports no free bytes: that keeps
// placement away from it, and the detail says why.
func (p *Pool) Facts(ctx context.Context) executor.PoolFacts {
	facts := executor.PoolFacts{ID: p.id}
	state, usage, err := p.readUsage(ctx)
	switch {
	case err != nil:
		facts.Absent, facts.Detail = true, err.Error()
		return facts
	case usage.failed:
		facts.Absent, facts.Detail = true, fmt.Sprintf("pool %s is absent: %s", p.name(), usage.refusalReason(p.MaxData, p.MaxMetadata))
		return facts
	}
	facts.Capacity = usage.dataTotal * state.chunkBytes
	if reason := usage.refusalReason(p.MaxData, p.MaxMetadata); reason != "" {
		facts.Detail = fmt.Sprintf("pool %s takes nothing new: %s", p.name(), reason)
		return facts
	}
	facts.Free = (usage.dataTotal - usage.dataUsed) * state.chunkBytes
	return facts
}

func (p *Pool) readUsage(ctx context.Context) (*poolState, poolUsage, error) {
	state, err := p.recentState(ctx)
	if err == nil && !p.lock.isPrepared() {
		var done func()
		if done, state, err = p.lock.fresh(ctx); err == nil {
			done()
		}
	}
	if err != nil {
		return nil, poolUsage{}, err
	}
	_, usage, err := p.poolDevice()
	return state, usage, err
}

// MetadataRatio implements executor.MetadataMeasurer. It reads the kernel's status only.
func (p *Pool) MetadataRatio() (ratio float64, known bool) {
	_, usage, err := p.poolDevice()
	if err != nil || usage.failed || usage.metaTotal == 0 {
		return 0, false
	}
	return float64(usage.metaUsed) / float64(usage.metaTotal), true
}
