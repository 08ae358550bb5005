package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/cmd/exit"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/loopfile"
	"github.com/holdfast-storage/holdfast/executor/lvm"
	"github.com/holdfast-storage/holdfast/executor/run"
)

// defaultOvercommit is how many times its capacity a pool of any kind may reserve without
// --overcommit (S25).
const defaultOvercommit = 2

// pool is one of the host's pools.
type pool struct {
	executor.Backend
	name        string
	checkUsable func() error // why the pool cannot be used now
}

// thinPool is one value of --pool.
type thinPool struct{ vg, pool string }

// name is the value of --pool, under which the host remembers the pool's id.
func (t thinPool) name() string { return lvm.Kind + ":" + t.vg + "/" + t.pool }

// applyPoolDefaults drops the default of --pool-dir when --pool is given. folder tells whether --pool-dir was set.
func (o *options) applyPoolDefaults(folder bool) {
	if len(o.pools) > 0 && !folder {
		o.poolDir = ""
	}
}

func (o *options) overcommitPercents() map[string]uint32 {
	percent := uint32(math.Round(cmp.Or(o.overcommit, defaultOvercommit) * 100))
	return map[string]uint32{loopfile.Kind: percent, lvm.Kind: percent}
}

// thinPools parses --pool.
func (o *options) thinPools() ([]thinPool, error) {
	var pools []thinPool
	for _, text := range o.pools {
		name, ok := strings.CutPrefix(text, lvm.Kind+":")
		vg, thin, both := strings.Cut(name, "/")
		if !ok || !both || vg == "" || thin == "" {
			return nil, exit.Usagef("--pool %q is not of the form lvm:VG/POOL", text)
		}
		if slices.Contains(pools, thinPool{vg, thin}) {
			return nil, exit.Usagef("--pool %q is given twice", text)
		}
		pools = append(pools, thinPool{vg, thin})
	}
	return pools, nil
}

// effectiveUID is replaced by tests.
var effectiveUID = os.Geteuid

// The host commands that every node needs, and those that one with thin pools needs. LVM
// itself runs thin_check.
var (
	requiredTools     = []string{"mkfs.ext4", "mkfs.xfs"}
	requiredThinTools = []string{"lvm", "dmsetup", "thin_check", "thin_dump", "thin_ls"}
)

// checkHost refuses a host on which root, a command or a kernel module is missing.
func checkHost(o *options, lookPath func(tool string) (string, error)) error {
	if effectiveUID() != 0 {
		return exit.Refusedf("start the node: it makes devices and mounts, which needs root; run it as root")
	}
	needed := requiredTools
	if len(o.pools) > 0 {
		needed = slices.Concat(requiredTools, requiredThinTools)
	}
	for _, tool := range needed {
		if _, err := lookPath(tool); err != nil {
			return exit.Refusedf("start the node: %w", err)
		}
	}
	if o.poolDir == "" {
		return nil
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return exit.Refusedf("start the node: %w; load the kernel module with `modprobe loop`", err)
	}
	return nil
}

// openPools opens the pools of --pool-dir and --pool.
func (p *components) openPools(o *options, runner *run.Runner) error {
	if o.poolDir != "" {
		if err := p.openFolderPool(o.poolDir, runner, o.poolImage == imageAuto); err != nil {
			return err
		}
	}
	thin, err := o.thinPools()
	if err != nil {
		return err
	}
	for _, t := range thin {
		if err := p.openThinPool(context.Background(), t, runner); err != nil {
			return err
		}
	}
	return nil
}

// openFolderPool opens the pool whose id the host remembers for the directory. Only a directory without
// an id may become a new pool: an unmounted pool is an empty directory too (S12). With image a new
// pool may get a filesystem image of its own.
func (p *components) openFolderPool(dir string, runner *run.Runner, image bool) error {
	known := p.host.PoolAt(dir)
	own, err := loopfile.OpenFilesystem(context.Background(), dir, runner, image && known == "")
	if !errors.As(err, &p.filesystemErr) && err != nil {
		return exit.Refusedf("open the pool: %w", err)
	}
	p.ownFilesystem = own
	if known == "" {
		if known, err = loopfile.Init(dir); err != nil {
			return exit.Refusedf("make the pool: %w", err)
		}
		if err := p.host.RememberPool(dir, known); err != nil {
			return exit.Refusedf("make the pool: %w", err)
		}
	}
	opened, err := loopfile.Open(loopfile.Config{Dir: dir, KnownID: known, OwnFilesystem: own})
	if err != nil {
		return exit.Refusedf("open the pool: %w", err)
	}
	p.pools = append(p.pools, pool{Backend: opened, name: dir, checkUsable: func() error { return checkPoolFolder(dir) }})
	return nil
}

// openThinPool opens the thin pool whose id the host remembers for the name. Only one without
// an id may be created or adopted (S12).
func (p *components) openThinPool(ctx context.Context, t thinPool, runner *run.Runner) (err error) {
	cfg := lvm.Config{VG: t.vg, ThinPool: t.pool, KnownID: p.host.PoolAt(t.name()), Runner: runner}
	if cfg.KnownID == "" {
		if cfg.KnownID, err = lvm.Init(ctx, cfg); err != nil {
			return exit.Refusedf("make the pool: %w", err)
		}
		if err := p.host.RememberPool(t.name(), cfg.KnownID); err != nil {
			return exit.Refusedf("make the pool: %w", err)
		}
	}
	opened, err := lvm.Open(ctx, cfg)
	if err != nil {
		return exit.Refusedf("open the pool: %w", err)
	}
	p.pools = append(p.pools, pool{Backend: opened, name: t.name(), checkUsable: func() error { return checkPresent(opened) }})
	return nil
}

// checkPresent fails when a pool is absent.
func checkPresent(b executor.Backend) error {
	if facts := b.Facts(context.Background()); facts.Absent {
		return fmt.Errorf("the pool is missing: %s", facts.Detail)
	}
	return nil
}

func (p *components) backends() []executor.Backend {
	var all []executor.Backend
	for _, pool := range p.pools {
		all = append(all, pool.Backend)
	}
	return all
}

func (p *components) poolNames() []string {
	var names []string
	for _, pool := range p.pools {
		names = append(names, pool.name)
	}
	return names
}
