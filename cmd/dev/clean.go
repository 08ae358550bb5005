package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/cmd/node"
)

// Clean removes a stopped cluster: its mounts, its loop devices, then its files. It removes only what a
// cluster creates in its directory, and may be repeated.
func Clean(ctx context.Context, dir string) error {
	l, err := newLayout(dir)
	if err != nil {
		return err
	}
	s, err := readSettings(l)
	if errors.Is(err, errNoSettings) {
		return nil // nothing was created, or everything is removed
	}
	if err != nil && s == nil {
		s = &settings{} // of another version: its ports are not known
	}
	held, err := lock(l)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }() // closing is unlocking
	if err := awaitPortsFree(ctx, l, s); err != nil {
		return err
	}
	// The nodes' records say which targets they made. What is mounted is read from the kernel's tables,
	// because a record may be damaged.
	var own []error
	for _, id := range ids("n", s.Nodes) {
		own = append(own, node.Clean(ctx, l.nodeData(id), l.pool(id)))
	}
	if err := releaseDevices(ctx, l.path("nodes")); err != nil {
		return exit.Wrap(exit.Refused, fmt.Errorf("clean %s: %w", l.dir, errors.Join(append(own, err)...)))
	}
	if err := foreignMounts(l.dir); err != nil {
		return exit.Wrap(exit.Refused, fmt.Errorf("clean %s: %w", l.dir, err))
	}
	return removeAll(l)
}

// foreignMounts refuses when something is mounted in the directory that is not the cluster's: removing
// files would delete its content.
func foreignMounts(dir string) error {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	mounts, err := mountinfo.GetMounts(mountinfo.PrefixFilter(real))
	if err != nil {
		return fmt.Errorf("read what is mounted: %w", err)
	}
	for _, m := range mounts {
		if strings.HasPrefix(m.Mountpoint, real+"/") {
			return fmt.Errorf("%s is mounted there from elsewhere; unmount it first", m.Mountpoint)
		}
	}
	return nil
}

// removeAll removes the settings last, so that a clean that failed can be repeated.
func removeAll(l layout) error {
	short := l.shortDir()
	for _, path := range []string{
		l.path("controllers"), l.path("nodes"), l.path("log"), l.path("sock"), short, l.path("pki"), l.path("ca"),
		l.clusterFile(), l.settingsFile(), l.lockFile(),
	} {
		if err := os.RemoveAll(path); err != nil {
			return exit.Wrap(exit.Refused, fmt.Errorf("clean %s: %w", l.dir, err))
		}
	}
	_ = os.Remove(filepath.Dir(short)) // succeeds when no other cluster uses it
	if err := os.Remove(l.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil // it has other files, which are not the cluster's
	}
	return nil
}
