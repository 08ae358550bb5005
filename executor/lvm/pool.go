package lvm

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.Backend = (*Pool)(nil)

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

// Pool is one thin pool. It keeps nothing open between calls and is safe for concurrent use.
type Pool struct {
	Config
	id      fsm.PoolID
	tools   *tools
	kernel  dmReader
	states  *stateCache
	mapRuns *mapRunCache

	// changeLock is held while this process changes the pool; LVM's own lock is per volume group.
	changeLock chan struct{}
	// metadataSnapLock is held while the pool's metadata snapshot is reserved.
	metadataSnapLock chan struct{}

	mu        sync.Mutex
	firstUUID string // the pool's UUID when it was first observed
	prepared  bool
	noOrphans bool  // no thin device unknown to LVM was found
	copyRate  int64 // bytes a second; 0: not measured
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
	p := &Pool{Config: cfg, id: cfg.KnownID, kernel: kernelDM{}, changeLock: make(chan struct{}, 1), mapRuns: newMapRunCache(), metadataSnapLock: make(chan struct{}, 1)}
	p.tools = newTools(ctx, cfg.Runner, cfg.VG, !cfg.NoUdev && udevIsUsable())
	p.states = newStateCache(p.readState)
	return p, nil
}

// Open returns the pool. A pool that the host has recorded may be absent now; then its operations
// report that.
func Open(ctx context.Context, cfg Config) (*Pool, error) {
	p, err := newPool(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if p.id == "" {
		v, err := p.states.refresh(ctx)
		if err != nil {
			return nil, fmt.Errorf("open pool %s: %w", p.name(), err)
		}
		if p.id, err = v.poolID(); err != nil {
			return nil, fmt.Errorf("pool %s has no id: was it ever made a pool? %w", p.name(), err)
		}
	}
	done, _, err := p.lockFresh(ctx)
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

// name is the pool's name for LVM's commands.
func (p *Pool) name() string { return p.VG + "/" + p.ThinPool }

// absentError is why a pool cannot be used now (S12). It may come back.
type absentError struct{ detail string }

func (e *absentError) Error() string { return e.detail }

func isAbsent(err error) bool {
	var absent *absentError
	return errors.As(err, &absent)
}

// verifyIdentity returns the pool's state as LVM reported it, or an *absentError: without the
// pool's id nothing in it may be trusted (S12).
func (p *Pool) verifyIdentity(v *poolState, err error) (*poolState, error) {
	switch {
	case errors.Is(err, errNoGroup):
		return nil, &absentError{fmt.Sprintf("pool %s is absent: there is no volume group %s", p.name(), p.VG)}
	case err != nil:
		return nil, err
	}
	id, err := v.poolID()
	switch {
	case err != nil:
		return nil, &absentError{fmt.Sprintf("pool %s is absent: %v", p.name(), err)}
	case id != p.id:
		return nil, &absentError{fmt.Sprintf("pool %s is absent: it is pool %s, not %s", p.name(), id, p.id)}
	case !p.isFirstSeen(v.groupUUID + v.pool.uuid):
		return nil, &absentError{fmt.Sprintf("pool %s is absent: it is another one than at the start; restart the node if that is meant", p.name())}
	}
	return v, nil
}

// isFirstSeen records the UUID of the pool that was observed first, and reports whether this is
// it: a copy of a pool carries the same tag.
func (p *Pool) isFirstSeen(uuid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.firstUUID == "" {
		p.firstUUID = uuid
	}
	return p.firstUUID == uuid
}

// recentState returns the cached or a new state. It includes every change that this Pool has made.
func (p *Pool) recentState(ctx context.Context) (*poolState, error) {
	return p.verifyIdentity(p.states.get(ctx))
}

// lockFresh is for callers that create or remove something: it holds the change lock until done is
// called, and returns the state read from LVM under it.
func (p *Pool) lockFresh(ctx context.Context) (done func(), v *poolState, err error) {
	return p.lock(ctx, p.states.refresh)
}

// lockRecent is for callers that neither create nor remove anything: it holds the change lock, but
// a cached state is enough.
func (p *Pool) lockRecent(ctx context.Context) (done func(), v *poolState, err error) {
	return p.lock(ctx, p.states.get)
}

func (p *Pool) lock(ctx context.Context, read func(context.Context) (*poolState, error)) (done func(), v *poolState, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("change pool %s: %w", p.name(), err)
	}
	select {
	case p.changeLock <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("wait for pool %s: %w", p.name(), ctx.Err())
	}
	done = func() { <-p.changeLock }
	if v, err = p.verifyIdentity(read(ctx)); err == nil {
		v, err = p.prepare(ctx, v)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return done, v, nil
}

func checkID(id fsm.VolumeID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a volume's id", string(id))
	}
	return nil
}

func checkSnapshotID(id fsm.SnapshotID) error {
	if !id.Valid() {
		return fsm.Reject(fsm.NotFound, "%q is not a snapshot's id", string(id))
	}
	return nil
}
