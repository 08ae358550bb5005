package dev

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

// Run runs a developer's cluster until ctx ends, which stops it and keeps its data.
func Run(ctx context.Context, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	l, err := newLayout(o.Dir)
	if err != nil {
		return err
	}
	if s, err := readSettings(l); err == nil { // reported also while the cluster runs
		if err := s.requireCounts(l, o.Controllers, o.Nodes); err != nil {
			return err
		}
	}
	unix.Umask(0o077)
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return fmt.Errorf("make the cluster's folder: %w", err)
	}
	held, err := lock(l)
	if err != nil {
		return err
	}
	defer func() { _ = held.Close() }() // closing unlocks
	s, err := loadOrCreateSettings(l, o.Controllers, o.Nodes)
	if err != nil {
		return err
	}
	if err := prepare(ctx, l, s); err != nil {
		return err
	}
	control, err := listenControl(l)
	if err != nil {
		return err
	}
	defer func() { _ = control.Close() }() // it also removes the socket
	supervisor := newSupervisor(o, l, s)
	go supervisor.serveControl(control)
	return supervisor.run(ctx, func(ctx context.Context) error { return awaitReady(ctx, o, l, s) })
}

func (o *Options) check() error {
	switch {
	case o.Dir == "":
		return exit.Usagef("--dir is not set: name the folder of the cluster")
	case o.Controllers < 1 || o.Controllers > 9:
		return exit.Usagef("--controllers %d: choose 1 to 9", o.Controllers)
	case o.Nodes < 0 || o.Nodes > 99:
		return exit.Usagef("--nodes %d: choose 0 to 99", o.Nodes)
	case o.Nodes > 0 && os.Geteuid() != 0:
		return exit.Refusedf("start the cluster in %s: its nodes make loop devices and mounts, which needs root; run it as root or with --nodes 0", o.Dir)
	}
	return nil
}
