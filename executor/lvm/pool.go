package lvm

import (
	"context"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

var (
	_ executor.Backend          = (*Pool)(nil)
	_ executor.MetadataMeasurer = (*Pool)(nil)
)

// Kind is the backend's name in the log.
const Kind = "lvm"

// Runner runs host commands; a *run.Runner does.
type Runner interface {
	Run(ctx context.Context, c run.Command) ([]byte, error)
}

// Config says which thin pool a Pool uses.
type Config struct {
	// VG and ThinPool name the volume group and the thin pool in it.
	VG, ThinPool string
	// KnownID is the pool id that the host recorded for this name, empty when the host has never
	// used it. Then the pool must have an id by now: see Init.
	KnownID fsm.PoolID
	// Runner runs the commands; nil: a *run.Runner of its own.
	Runner Runner
	// NoUdev says that no udev daemon manages the devices here, as in a container; a host without
	// udev is detected automatically.
	NoUdev bool
	// MaxData and MaxMetadata are how full the pool's data and metadata may be, in percent, for
	// anything new to be created in it; 0: 95 and 80.
	MaxData, MaxMetadata int
}

const (
	defaultMaxData     = 95
	defaultMaxMetadata = 80
)

// Pool is one thin pool. It keeps nothing open between calls and is safe for concurrent use. Its
// methods are those of the backend: each checks what it is asked for, takes the lock where it
// changes something, and leaves the work to the parts.
type Pool struct {
	*thinPool
	lock    *changeLock
	volumes *thinVolumes
	layers  *layers
	maps    *snapshotMaps
}

// newPool checks the names and sets up what does not need the pool to be present.
func newPool(ctx context.Context, cfg Config) (*Pool, error) {
	if err := checkNames(cfg.VG, cfg.ThinPool); err != nil {
		return nil, err
	}
	if cfg.Runner == nil {
		cfg.Runner = run.New()
	}
	if cfg.MaxData == 0 {
		cfg.MaxData = defaultMaxData
	}
	if cfg.MaxMetadata == 0 {
		cfg.MaxMetadata = defaultMaxMetadata
	}
	p := newThinPool(cfg, newTools(ctx, cfg.Runner, cfg.VG, !cfg.NoUdev && udevIsUsable()))
	m := newMetadataSnap(p)
	return &Pool{
		thinPool: p, lock: newChangeLock(p, m), volumes: &thinVolumes{p, m}, layers: &layers{p},
		maps: &snapshotMaps{p, m, newMapRunCache()},
	}, nil
}

// Open returns the pool. A pool that the host has recorded may be absent now; then its operations
// report that.
func Open(ctx context.Context, cfg Config) (*Pool, error) {
	p, err := newPool(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if p.id == "" {
		state, err := p.states.refresh(ctx)
		if err != nil {
			return nil, fmt.Errorf("open pool %s: %w", p.name(), err)
		}
		if p.id, err = state.poolID(); err != nil {
			return nil, fmt.Errorf("pool %s has no id: was it ever made a pool? %w", p.name(), err)
		}
	}
	done, _, err := p.lock.fresh(ctx)
	if err != nil && !isAbsent(err) {
		return nil, fmt.Errorf("open pool %s: %w", p.name(), err)
	}
	if err == nil {
		done()
	}
	return p, nil
}

// ID is the pool's identity, also while it is absent.
func (p *Pool) ID() fsm.PoolID { return p.id }

// Kind returns the constant Kind.
func (p *Pool) Kind() string { return Kind }
