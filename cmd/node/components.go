package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/freeze"
	"github.com/holdfast-storage/holdfast/executor/loopfile"
	"github.com/holdfast-storage/holdfast/executor/luks"
	"github.com/holdfast-storage/holdfast/executor/mount"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/executor/throttle"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

type registration = fsmpb.RegisterNode

// components are the backends and host services that an executor uses.
type components struct {
	lock          *os.File
	host          *records.Host
	pools         []pool
	ownFilesystem *loopfile.Filesystem      // image that the pool of files is on, nil when it has none
	filesystemErr *loopfile.FilesystemError // why a new pool was created without one
	mounter       *mount.Mounter
	freezer       *freeze.Freezer
	// replication is nil on a host that holds no replicas of replicated volumes.
	replication *replication
	encryptor   *luks.Tool
	throttle    executor.Throttle // nil when this host has no control groups that bound I/O
}

// openComponents checks the host's tools, and opens its identity, its pools and the
// other components.
func openComponents(o *options, log *slog.Logger) (*components, error) {
	runner := run.New()
	if err := checkHost(o, runner.LookPath); err != nil {
		return nil, err
	}
	p := &components{encryptor: luks.New(runner, nil)}
	protectPassphrases(log)
	for _, step := range []func() error{
		func() error { return p.openIdentity(o.dataDir) },
		func() error { return p.openPools(o, runner) },
		func() error { return p.openMounter(o.allowRoots, o.mountFlags.Policy(), runner) },
		func() error { return p.checkPropagation(log) },
		func() error { return p.openFreezer(o.dataDir) },
		func() error { return p.openReplication(o, log) },
		func() error { return p.checkEncryption(log) },
	} {
		if err := step(); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

// openIdentity locks the data directory first: two processes on one data directory would undo each other's
// work.
func (p *components) openIdentity(dir string) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return exit.Usagef("make the data folder: %w; choose another with --data-dir", err)
	}
	if p.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return exit.Refusedf("lock the data folder: %w", err)
	}
	if err := unix.Flock(int(p.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return exit.Refusedf("lock the data folder %s: another node process uses it; stop it first", dir)
	}
	p.host, err = records.OpenHost(dir)
	return exit.Wrap(exit.Refused, err)
}

func (p *components) openMounter(roots []string, policy fsm.MountPolicy, runner *run.Runner) (err error) {
	for _, root := range roots {
		if !filepath.IsAbs(root) {
			return exit.Usagef("--allow-root %q is not an absolute path", root)
		}
	}
	if p.mounter, err = mount.New(mount.Config{Roots: roots, Runner: runner, Mounts: policy, Program: []string{"/proc/self/exe", "end-filesystem"}}); err != nil {
		return exit.Wrap(exit.Usage, fmt.Errorf("allow mounts: %w", err))
	}
	return nil
}

// checkPropagation warns of mounts that containers may not see (S125). It never fails the start: a
// kubelet in this process's mount namespace sees them without propagation.
func (p *components) checkPropagation(log *slog.Logger) error {
	if err := p.mounter.SelfTest(); err != nil {
		log.Warn("containers may not see the mounts of this node", "error", err)
	}
	return nil
}

// checkEncryption says what keeps encrypted volumes from being staged here. It never fails the start: other volumes
// need none of it, and a kernel module may be loaded later.
func (p *components) checkEncryption(log *slog.Logger) error {
	if err := p.encryptor.Check(context.Background()); err != nil {
		log.Info("encrypted volumes cannot be staged on this host", "error", err)
	}
	return nil
}

// openFreezer keeps the records of freezes in the data directory, never on
// a volume (S19). The thaw process runs this same build, also after an upgrade replaced its file.
func (p *components) openFreezer(dir string) (err error) {
	p.freezer, err = freeze.New(freeze.Config{
		Dir: filepath.Join(dir, "freezes"), Program: []string{"/proc/self/exe", "thaw"},
	})
	return exit.Wrap(exit.Refused, err)
}

// openThrottle never fails the start: a volume's condition reports that its limits are
// not applied.
func (p *components) openThrottle(group string, log *slog.Logger) {
	limits, err := throttle.New(throttle.Config{Group: group})
	if err != nil {
		log.Warn("volumes' I/O limits cannot be applied on this host", "error", err)
		return
	}
	switch err := limits.Check(); {
	case err == nil:
	case limits.NeedsGroup():
		log.Warn("volumes' I/O limits cannot be applied on this host without --io-cgroup", "error", err)
	default:
		log.Info("volumes' I/O limits cannot be applied until their control group exists", "error", err)
	}
	p.throttle = limits
}

func (p *components) close() error {
	var errs []error
	if p.ownFilesystem != nil {
		errs = append(errs, p.ownFilesystem.Close())
	}
	if p.mounter != nil {
		errs = append(errs, p.mounter.Close())
	}
	if p.lock != nil {
		errs = append(errs, p.lock.Close())
	}
	return errors.Join(errs...)
}
