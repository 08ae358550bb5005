package raftnode

import (
	"sync"
	"time"
)

// slowSyncsPeriod is the period of which the longest durable write is kept, beside that of the one before.
const slowSyncsPeriod = 30 * time.Second

// slowSyncs keeps the longest durable write of the last half minute to minute.
type slowSyncs struct {
	mu              sync.Mutex
	began           time.Time
	longest, before time.Duration
}

func (x *slowSyncs) add(now time.Time, took time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.turn(now)
	x.longest = max(x.longest, took)
}

// slowest is the longest one; 0: there was none.
func (x *slowSyncs) slowest(now time.Time) time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.turn(now)
	return max(x.longest, x.before)
}

// turn begins a new period where one is over.
func (x *slowSyncs) turn(now time.Time) {
	switch age := now.Sub(x.began); {
	case age >= 0 && age < slowSyncsPeriod:
		return
	case age >= 0 && age < 2*slowSyncsPeriod:
		x.before = x.longest
	default: // long ago, or the clock was set back
		x.before = 0
	}
	x.began, x.longest = now, 0
}

// observeSync counts one durable write.
func (m *Member) observeSync(took time.Duration) {
	m.metrics.observeSync(took)
	m.slowSyncs.add(m.cfg.now(), took)
}
