package isolated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// Disk is the filesystem of one member. Fill and Free are of the filesystem itself, also where another is put before it.
type Disk struct {
	*harness.Disk
	seen    string // the directory that the member works in
	unmount func() error
}

// makeDisk makes a member's filesystem with the folders in it that its process does not make.
func (c *Cluster) makeDisk(ctx context.Context, m *Member) (*Disk, error) {
	size := c.opts.NodeDisk
	if m.role == controllerRole {
		size = c.opts.ControllerDisk
	}
	made, err := harness.MakeDisk(ctx, c.path("disk", m.ID), c.path("below", m.ID), size)
	if err != nil {
		return nil, err
	}
	d := &Disk{Disk: made, seen: made.Root()}
	if c.opts.Mount != nil {
		err = d.cover(ctx, c.opts.Mount, m.ID, c.path("at", m.ID))
	}
	return d, errors.Join(err, m.makeFolders(d))
}

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.view.Base}, parts...)...)
}

// cover puts another filesystem before the member's own.
func (d *Disk) cover(ctx context.Context, mount MountFunc, member, at string) error {
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	unmount, err := mount(ctx, member, d.Root(), at)
	if err != nil {
		return fmt.Errorf("mount a filesystem over the disk of %s: %w", member, err)
	}
	if unmount != nil {
		d.unmount, d.seen = unmount, at
	}
	return nil
}

func (m *Member) makeFolders(d *Disk) error {
	if m.role == controllerRole {
		return nil
	}
	return errors.Join(os.MkdirAll(filepath.Join(d.Root(), "data"), 0o700), os.MkdirAll(filepath.Join(d.Root(), "pool"), 0o700))
}

// Wipe removes all that a stopped member keeps, as if its disk had been lost. The volumes of a node must be nowhere staged.
func (m *Member) Wipe() error {
	if m.Running() {
		return fmt.Errorf("wipe %s: its process runs", m.ID)
	}
	entries, err := os.ReadDir(m.disk.seen)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, os.RemoveAll(filepath.Join(m.disk.seen, e.Name())))
	}
	return errors.Join(append(errs, m.makeFolders(m.disk))...)
}

// Below is where the member's data is on its own filesystem, past one that was put before it.
func (m *Member) Below() string { return filepath.Join(m.disk.Root(), "data") }

// uncover ends what cover began.
func (d *Disk) uncover() error {
	if d == nil || d.unmount == nil {
		return nil
	}
	unmount := d.unmount
	d.unmount = nil
	return unmount()
}
