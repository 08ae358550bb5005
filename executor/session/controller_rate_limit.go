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
	// proposalsPerSecond is how many commands one host may propose, on average: its reports
	// carry up to 256 facts each, so that a host which works stays far below it.
	proposalsPerSecond = 1000
	// proposalBurst is how many it may propose at once.
	proposalBurst = 2000
	// registrationsPerSecond and registrationBurst bound how often it may be registered. They are
	// limits of their own, so that a host with many waiting proposals still gets a session.
	registrationsPerSecond = 10
	registrationBurst      = 100
)

// nodeRateLimits keep one host from filling the log, which all hosts share.
type nodeRateLimits struct {
	mu        sync.Mutex
	limiters  map[fsm.NodeID]*rate.Limiter
	perSecond rate.Limit
	burst     int
}

func newNodeRateLimits(perSecond rate.Limit, burst int) *nodeRateLimits {
	return &nodeRateLimits{limiters: map[fsm.NodeID]*rate.Limiter{}, perSecond: perSecond, burst: burst}
}

// wait returns when the host may propose. It fails with UNAVAILABLE when that
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
