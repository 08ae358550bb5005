package policy

import (
	"context"
	"slices"
	"time"
)

// MaxClockSkew is how far a leader's clock may be from the members' median (S27).
const MaxClockSkew = 5 * time.Second

// ClockAhead is how far this member's clock was ahead of the members' median at the last poll; 0 where no other answered.
func (m *Monitor) ClockAhead() time.Duration { return time.Duration(m.clockAhead.Load()) }

// checkClockSkew compares this leader's clock with the members' (S27).
func (m *Monitor) checkClockSkew(ctx context.Context) {
	ahead := m.ClockAhead()
	if ahead.Abs() <= MaxClockSkew {
		return
	}
	m.Logger.Warn("this leader's clock is far from the members' median", "ahead", ahead)
	if m.OnClockSkew != nil {
		m.OnClockSkew(ctx, ahead)
	}
}

// clockSkew is how far this member's clock is ahead of the members' median (S27). offsets
// are the other members' clocks minus this one's. Of an even number the middle value
// that is nearer to this clock is taken: of two clocks alone neither is known to be wrong.
func clockSkew(offsets []time.Duration) time.Duration {
	all := append([]time.Duration{0}, offsets...)
	slices.Sort(all)
	upper := all[len(all)/2]
	lower := all[(len(all)-1)/2]
	if upper.Abs() < lower.Abs() {
		return -upper
	}
	return -lower
}
