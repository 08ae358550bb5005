package isolated

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Close ends every process, unmounts and removes all, and proves that nothing of the cluster is left. It may follow a Start
// that failed anywhere.
func (c *Cluster) Close(ctx context.Context) error {
	c.Supervise(false)
	var errs []error
	for _, m := range c.Members() {
		errs = append(errs, m.Kill())
		m.endRelay()
	}
	if c.view != nil {
		errs = append(errs, c.remove(ctx))
	}
	if c.net != nil {
		c.net.Close()
	}
	return errors.Join(errs...)
}

// remove removes the cluster's directory with what is mounted there; after an error it stays, for the next Sweep.
func (c *Cluster) remove(ctx context.Context) error {
	c.view.CloseClients()
	err := unmountAll(ctx, c.view.Mounts())
	for _, m := range c.Members() {
		err = errors.Join(err, m.disk.uncover())
	}
	if err := errors.Join(err, unmountAll(ctx, c.view.Base), c.view.Leftovers(ctx)); err != nil {
		return fmt.Errorf("clean %s: %w", c.view.Base, err)
	}
	c.mu.Lock() // who waits for a process that ended writes nothing from now on
	defer c.mu.Unlock()
	c.closed = true
	return os.RemoveAll(c.view.Base)
}
