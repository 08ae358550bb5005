// Package nemesis injects faults on a schedule and counts them.
package nemesis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Fault is one kind of fault, injected repeatedly.
type Fault struct {
	Name   string
	Every  time.Duration
	Inject func(context.Context) error
}

// Nemesis does faults until it is stopped.
type Nemesis struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	done   map[string]int
	errs   []error
}

// Start begins to inject the faults, each with its own period; the first after one period.
func Start(ctx context.Context, faults ...Fault) *Nemesis {
	ctx, cancel := context.WithCancel(ctx)
	n := &Nemesis{cancel: cancel, done: map[string]int{}}
	for _, f := range faults {
		n.wg.Go(func() { n.run(ctx, f) })
	}
	return n
}

func (n *Nemesis) run(ctx context.Context, f Fault) {
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n.record(f.Name, f.Inject(ctx), ctx.Err() != nil)
	}
}

// record counts a fault; one that could not be done because the time was over is no error.
func (n *Nemesis) record(name string, err error, over bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case err == nil:
		n.done[name]++
	case !over:
		n.errs = append(n.errs, fmt.Errorf("%s: %w", name, err))
	}
}

// Done is how often a fault was done so far.
func (n *Nemesis) Done(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.done[name]
}

// Stop ends the injection and returns how often each fault was injected, and the errors of those that could not be.
func (n *Nemesis) Stop() (map[string]int, error) {
	n.cancel()
	n.wg.Wait()
	return n.done, errors.Join(n.errs...)
}
