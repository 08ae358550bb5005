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

// Config says which thin pool is the pool.
type Config struct {
	// VG and Pool name the volume group and the thin pool in it.
	VG, ThinPool string
	// KnownID is the id that the host remembers of this name, empty when it never saw
	// it. Then the pool must have an id by now: see Init.
	KnownID fsm.PoolID
	// Runner runs the commands; nil: a runner of its own.
	Runner Runner
	// NoUdev tells that nobody answers for udev here, as in a container; it is seen
	// by itself where there is no udev at all.
	NoUdev bool
	// MaxData and MaxMetadata are how full the pool's data and metadata may be, in
	// percent, for anything new to be made in it; 0: 95 and 80.
	MaxData, MaxMetadata int
}

const (
	defaultMaxData     = 95
	defaultMaxMetadata = 80
)

// Pool is one thin pool. It keeps nothing open between calls.
type Pool struct {
	Config
	id      fsm.PoolID
	tools   *tools
	kernel  dmReader
	states  *stateCache
	mapRuns *mapRunCache

	// change is held by whoever changes the pool; LVM's own lock is per group.
	changeLock chan struct{}
	// reserved is held by whoever has the pool's metadata snapshot.
	metadataSnapLock chan struct{}

	mu        sync.Mutex
	firstUUID string // the pool's UUID when it was first seen
	prepared  bool
	noOrphans bool  // no thin device is known that LVM does not know
	copyRate  int64 // bytes a second; 0: not measured
}

// newPool checks the names and makes what needs no pool to be there.
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

// Open returns the pool. A pool that the host remembers may be absent now; all it
// does then is say so.
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

// Kind is "lvm".
func (p *Pool) Kind() string { return Kind }

// name is the pool as LVM's commands take it.
func (p *Pool) name() string { return p.VG + "/" + p.ThinPool }

// absentError says why a pool cannot be used now (S12). It may come back.
type absentError struct{ detail string }

func (e *absentError) Error() string { return e.detail }

func isAbsent(err error) bool {
	var absent *absentError
	return errors.As(err, &absent)
}

// verifyIdentity is what LVM says of the pool, or an *absentError: without the pool's id
// nothing in it may be believed (S12).
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

// same remembers the pool that was seen first: a copy of it carries the same tag.
func (p *Pool) isFirstSeen(uuid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.firstUUID == "" {
		p.firstUUID = uuid
	}
	return p.firstUUID == uuid
}

// recent is what LVM said lately. Whatever this pool changed since is in it.
func (p *Pool) recentState(ctx context.Context) (*poolState, error) {
	return p.verifyIdentity(p.states.get(ctx))
}

// begin is for whoever makes or removes something: he is alone until he calls done, and
// sees what LVM says now.
func (p *Pool) lockFresh(ctx context.Context) (done func(), v *poolState, err error) {
	return p.lock(ctx, p.states.refresh)
}

// lockRecent is for whoever leaves what is in the pool as it is: a recent view is enough.
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
