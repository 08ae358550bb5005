package controller

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/holdfast-storage/holdfast/raftnode"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// awaitStop returns the error with which a controller could not start, at once unless its state is not the majority's (S23): then
// the process stays until it is stopped. It serves nothing but its metrics and its readiness, which say so, where a
// process that ends at each start says nothing to who watches it.
func (c *controller) awaitStop(ctx context.Context, why error) error {
	if !errors.Is(why, store.ErrQuarantined) {
		return why
	}
	if err := c.registry.Register(raftnode.DivergedGauge(func() bool { return true })); err != nil {
		return errors.Join(why, fmt.Errorf("register the metric of a member that diverged: %w", err))
	}
	for _, l := range []net.Listener{c.raftListener, c.apiListener, c.csiListener} {
		_ = l.Close() // callers are refused instead of waiting
	}
	if c.enrollment != nil {
		_ = c.enrollment.listener.Close()
	}
	refused := fmt.Errorf("%w: %w", raftnode.ErrDiverged, why)
	c.cluster.refused.Store(&refused)
	c.log.Error("this controller serves nothing until its member is replaced", "why", why)
	<-ctx.Done()
	return nil
}
