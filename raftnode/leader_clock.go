package raftnode

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// maxClockSkew is how far a leader's clock may be from the members' median (S27).
const maxClockSkew = 5 * time.Second

// clockCheck tells whether this leader's clock is skewed.
type clockCheck struct{ skewed atomic.Bool }

// checkClock has a leader whose clock is skewed against the members' median stop stamping
// commands and transfer leadership. Where too few answer to tell, what an earlier probe found no longer counts: the leader
// would take no command for as long as it leads.
func (l *leader) checkClock(statuses map[raft.ServerID]memberStatus) {
	var offsets []time.Duration
	for _, a := range statuses {
		if a.roundTrip < maxClockSkew/5 {
			offsets = append(offsets, a.clockOffset)
		}
	}
	skew, enough := median(offsets)
	skewed := enough && skew.Abs() > maxClockSkew
	if l.clock.skewed.Swap(skewed) != skewed && skewed {
		l.log.Error("this leader's clock differs too much from the members' median", "by", skew.String())
	}
	if skewed {
		l.giveUp("its clock is wrong")
	}
}

// giveUp transfers leadership. When that fails the leader falls silent, and the others elect one of them: a transfer takes a
// connection, and a member with a clock that is wrong enough takes the others' certificates for expired. Without another voter
// there is nobody to elect, and a leader that is its own quorum would stay silent in this term for ever.
func (l *leader) giveUp(reason string) {
	before := l.tracker.refresh()
	if len(votersOf(l.raft)) < 2 {
		return
	}
	l.tracker.resign(reason)
	if now := l.tracker.refresh(); before.leading && now.leading && now.term == before.term {
		l.log.Error("this leader falls silent, because it cannot transfer leadership", "why", reason)
		l.transport.fallSilent(now.term)
	}
}

// median includes this member's own offset, zero. Of two clocks nobody knows which is right.
func median(others []time.Duration) (time.Duration, bool) {
	if len(others) < 2 {
		return 0, false
	}
	all := append([]time.Duration{0}, others...)
	slices.Sort(all)
	if n := len(all); n%2 == 0 {
		return (all[n/2-1] + all[n/2]) / 2, true
	}
	return all[len(all)/2], true
}
