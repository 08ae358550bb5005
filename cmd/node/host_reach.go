package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor/hostcheck"
	"github.com/holdfast-storage/holdfast/executor/session"
)

// keepReached is how long an answer is given again to the same question.
const keepReached = 5 * time.Second

// reachability tries whom this host reaches, for one question at a time: with many who ask, each host would be tried by each
// other one for each of them.
type reachability struct {
	own   string // its replication address; empty: it holds no replicas, and reaches no host
	dial  func(context.Context, string) error
	pairs hostcheck.PairProbe
	turn  chan struct{} // holds a value while a question has its turn, to which the fields below belong

	last               session.Reachability
	at                 time.Time         // of the answer to it; zero: there is none
	controllers, hosts []hostcheck.Reach // the answer
}

func newReachability(own string, dial func(context.Context, string) error, pause time.Duration) *reachability {
	return &reachability{own: own, dial: dial, pairs: hostcheck.PairProbe{Pause: pause}, turn: make(chan struct{}, 1)}
}

// begin listens when it returns, and then tries controllers and hosts. What is received puts the answers among the facts.
func (r *reachability) begin(ctx context.Context, whom session.Reachability) <-chan func(*hostcheck.Facts) {
	var listened *hostcheck.Listened
	if r.triesHosts(whom) {
		listened = r.pairs.Listen(ctx, r.own, whom.Port)
	}
	done := make(chan func(*hostcheck.Facts), 1)
	go func() {
		controllers, hosts := r.reach(ctx, whom)
		done <- func(f *hostcheck.Facts) { f.Controllers, f.Hosts, f.Listened = controllers, hosts, listened }
	}()
	return done
}

func (r *reachability) triesHosts(whom session.Reachability) bool {
	return r.own != "" && whom.Port != 0
}

// reach is the answer of some seconds ago to the same question, or a new one; nothing where the time for it is over.
func (r *reachability) reach(ctx context.Context, whom session.Reachability) (controllers, hosts []hostcheck.Reach) {
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, nil
	}
	defer func() { <-r.turn }()
	if r.isLast(whom) {
		return r.controllers, r.hosts
	}
	controllers, hosts = r.try(ctx, whom)
	// Of a question that was cut short those who were not reached may only have had no time; one that refused may have
	// begun to listen since.
	refused := slices.ContainsFunc(hosts, func(h hostcheck.Reach) bool { return h.Refused })
	if ctx.Err() == nil && !refused {
		r.last, r.at, r.controllers, r.hosts = whom, time.Now(), controllers, hosts
	}
	return controllers, hosts
}

func (r *reachability) try(ctx context.Context, whom session.Reachability) (controllers, hosts []hostcheck.Reach) {
	var wg sync.WaitGroup
	wg.Go(func() { controllers = hostcheck.ReachAll(ctx, r.dial, whom.Controllers) })
	if r.triesHosts(whom) {
		wg.Go(func() { hosts = r.pairs.Reach(ctx, r.dial, whom.Hosts, whom.Port) })
	}
	wg.Wait()
	return controllers, hosts
}

func (r *reachability) isLast(whom session.Reachability) bool {
	return !r.at.IsZero() && time.Since(r.at) < keepReached && r.last.Port == whom.Port &&
		slices.Equal(r.last.Controllers, whom.Controllers) && slices.Equal(r.last.Hosts, whom.Hosts)
}
