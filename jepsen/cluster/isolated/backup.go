package isolated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// Backup is a copy of what every controller kept.
type Backup struct{ dirs map[string]string }

// Backup stops all controllers, copies what they keep, and starts them again.
func (c *Cluster) Backup(ctx context.Context) (*Backup, error) {
	b := &Backup{dirs: map[string]string{}}
	err := c.whileStopped(ctx, func(m *Member) error {
		b.dirs[m.ID] = c.path("backup", m.ID)
		return errors.Join(os.MkdirAll(c.path("backup"), 0o700), copyAll(ctx, m.Below(), b.dirs[m.ID]))
	})
	if err != nil {
		return nil, fmt.Errorf("back the cluster up: %w", err)
	}
	return b, nil
}

// Restore stops all controllers, puts back what a backup has, and starts them again.
func (c *Cluster) Restore(ctx context.Context, b *Backup) error {
	err := c.whileStopped(ctx, func(m *Member) error {
		if b.dirs[m.ID] == "" {
			return fmt.Errorf("the backup has no %s", m.ID)
		}
		return errors.Join(os.RemoveAll(m.Below()), copyAll(ctx, b.dirs[m.ID], m.Below()))
	})
	if err != nil {
		return fmt.Errorf("restore the cluster: %w", err)
	}
	return nil
}

// whileStopped does something to each controller while none runs.
func (c *Cluster) whileStopped(ctx context.Context, do func(*Member) error) error {
	var errs []error
	for _, m := range c.Controllers() {
		errs = append(errs, m.Stop(ctx))
	}
	for _, m := range c.Controllers() {
		errs = append(errs, do(m))
	}
	for _, m := range c.Controllers() {
		errs = append(errs, m.Start(ctx))
	}
	return errors.Join(errs...)
}

// copyAll copies a directory with the modes of its files.
func copyAll(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}
