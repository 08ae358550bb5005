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
	// proposalBurst is what it may have proposed in a burst.
	proposalBurst = 2000
	// registrationsPerSecond and registrationBurst bound how often it may be registered. They are
	// apart from its proposals: however many wait, its session comes back.
	registrationsPerSecond = 10
	registrationBurst      = 100
)

// limits keeps one host from filling the log, whose room and time all share.
type nodeRateLimits struct {
	mu        sync.Mutex
	limiters  map[fsm.NodeID]*rate.Limiter
	perSecond rate.Limit
	burst     int
}

func newNodeRateLimits(perSecond rate.Limit, burst int) *nodeRateLimits {
	return &nodeRateLimits{limiters: map[fsm.NodeID]*rate.Limiter{}, perSecond: perSecond, burst: burst}
}

// wait holds a host's proposal back until it may go on. It is UNAVAILABLE when that
// would be after the caller's deadline: nothing was proposed.
func (l *nodeRateLimits) wait(ctx context.Context, node fsm.NodeID) error {
	l.mu.Lock()
	limiter := l.limiters[node]
	if limiter == nil {
		limiter = rate.NewLimiter(l.perSecond, l.burst)
		l.limiters[node] = limiter
	}
	l.mu.Unlock()
	if err := limiter.Wait(ctx); err != nil {
		return status.Errorf(codes.Unavailable, "node %s proposes more than %v commands a second: %v", node, float64(l.perSecond), err)
	}
	return nil
}
