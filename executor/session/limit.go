package session

import (
	"context"
	"sync"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	// proposalsPerSecond is what one host may have proposed, on average: its reports
	// carry up to 256 facts each, so a host that is well stays far below it.
	proposalsPerSecond = 1000
	// proposalsAtOnce is what it may have proposed in a burst.
	proposalsAtOnce = 2000
	// sessionsPerSecond and sessionsAtOnce bound how often it may be registered. They are
	// apart from its proposals: however many wait, its session comes back.
	sessionsPerSecond = 10
	sessionsAtOnce    = 100
)

// limits keeps one host from filling the log, whose room and time all share.
type limits struct {
	mu    sync.Mutex
	hosts map[fsm.NodeID]*rate.Limiter
	every rate.Limit
	burst int
}

func newLimits(every rate.Limit, burst int) *limits {
	return &limits{hosts: map[fsm.NodeID]*rate.Limiter{}, every: every, burst: burst}
}

// wait holds a host's proposal back until it may go on. It is UNAVAILABLE when that
// would be after the caller's deadline: nothing was proposed.
func (l *limits) wait(ctx context.Context, node fsm.NodeID) error {
	l.mu.Lock()
	limiter := l.hosts[node]
	if limiter == nil {
		limiter = rate.NewLimiter(l.every, l.burst)
		l.hosts[node] = limiter
	}
	l.mu.Unlock()
	if err := limiter.Wait(ctx); err != nil {
		return status.Errorf(codes.Unavailable, "node %s proposes more than %v commands a second: %v", node, float64(l.every), err)
	}
	return nil
}
