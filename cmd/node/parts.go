package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/loopfile"
	"github.com/holdfast-storage/holdfast/executor/mount"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

type registration = fsmpb.RegisterNode

// parts are what an executor works with on this host.
type parts struct {
	lock    *os.File
	host    *executor.Host
	pool    *loopfile.Pool
	mounter *mount.Mounter
}

// tools are the host commands that a node cannot do without.
var tools = []string{"mkfs.ext4", "mkfs.xfs"}

// geteuid is replaced by tests.
var geteuid = os.Geteuid

// openParts checks what the host has, and opens its identity, its pool and the
// folders below which it may mount.
func openParts(o *options) (*parts, error) {
	runner := run.New()
	if err := checkHost(runner.Look); err != nil {
		return nil, err
	}
	p := &parts{}
	for _, step := range []func() error{
		func() error { return p.openIdentity(o.dataDir) },
		func() error { return p.openPool(o.poolDir) },
		func() error { return p.openMounter(o.allowRoots, runner) },
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

// checkHost tells what is missing for any node at all.
func checkHost(look func(tool string) (string, error)) error {
	if geteuid() != 0 {
		return exit.Nof("start the node: it makes loop devices and mounts, which needs root; run it as root")
	}
	for _, tool := range tools {
		if _, err := look(tool); err != nil {
			return exit.Nof("start the node: %w", err)
		}
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return exit.Nof("start the node: %w; load the kernel module with `modprobe loop`", err)
	}
	return nil
}

// openIdentity locks the data folder first: two processes on one would each undo
// the other's work.
func (p *parts) openIdentity(dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return exit.Usagef("make the data folder: %w; choose another with --data-dir", err)
	}
	if p.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return exit.Nof("lock the data folder: %w", err)
	}
	if err := unix.Flock(int(p.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return exit.Nof("lock the data folder %s: another node process uses it; stop it first", dir)
	}
	p.host, err = executor.OpenHost(dir)
	return exit.With(exit.No, err)
}

// openPool opens the pool that the host knows in the folder. Only a folder that it
// never knew may become a new pool: an unmounted pool is an empty folder too (S12).
func (p *parts) openPool(dir string) (err error) {
	known := p.host.Pool(dir)
	if known == "" {
		if known, err = loopfile.Init(dir); err != nil {
			return exit.Nof("make the pool: %w", err)
		}
		if err := p.host.RememberPool(dir, known); err != nil {
			return exit.Nof("make the pool: %w", err)
		}
	}
	if p.pool, err = loopfile.Open(loopfile.Config{Dir: dir, Known: known}); err != nil {
		return exit.Nof("open the pool: %w", err)
	}
	return nil
}

func (p *parts) openMounter(roots []string, runner *run.Runner) (err error) {
	for _, root := range roots {
		if !filepath.IsAbs(root) {
			return exit.Usagef("--allow-root %q is not an absolute path", root)
		}
	}
	if p.mounter, err = mount.New(mount.Config{Roots: roots, Runner: runner}); err != nil {
		return exit.With(exit.Usage, fmt.Errorf("allow mounts: %w", err))
	}
	return nil
}

func (p *parts) close() error {
	var errs []error
	if p.mounter != nil {
		errs = append(errs, p.mounter.Close())
	}
	if p.lock != nil {
		errs = append(errs, p.lock.Close())
	}
	return errors.Join(errs...)
}
