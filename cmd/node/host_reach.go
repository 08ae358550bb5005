package node

import (
	"context"
	"sync"

	"github.com/holdfast-storage/holdfast/executor/hostcheck"
	"github.com/holdfast-storage/holdfast/executor/session"
)

// reachability tries whom this host reaches.
type reachability struct {
	own   string // its replication address; empty: it holds no replicas, and reaches no host
	dial  func(context.Context, string) error
	pairs hostcheck.PairProbe
}

// begin listens when it returns, and then tries controllers and hosts. What is received puts the answers among the facts.
func (r *reachability) begin(ctx context.Context, whom session.Reachability) <-chan func(*hostcheck.Facts) {
	var listened *hostcheck.Listened
	if r.own != "" && whom.Port != 0 {
		listened = r.pairs.Listen(ctx, r.own, whom.Port)
	}
	done := make(chan func(*hostcheck.Facts), 1)
	go func() {
		var controllers, hosts []hostcheck.Reach
		var wg sync.WaitGroup
		wg.Go(func() { controllers = hostcheck.ReachAll(ctx, r.dial, whom.Controllers) })
		if listened != nil {
			wg.Go(func() { hosts = r.pairs.Reach(ctx, r.dial, whom.Hosts, whom.Port) })
		}
		wg.Wait()
		done <- func(f *hostcheck.Facts) { f.Controllers, f.Hosts, f.Listened = controllers, hosts, listened }
	}()
	return done
}
