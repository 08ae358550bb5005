package lvm

import (
	"context"
	"fmt"
	"slices"
)

func (l *changeLock) isPrepared() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prepared
}

// prepare makes a pool fit for use that this process uses for the first time: active, failing
// writes when it is full, and without what a killed process left unfinished. The caller holds the
// lock. It returns the state afterwards.
func (l *changeLock) prepare(ctx context.Context, state *poolState) (*poolState, error) {
	if l.isPrepared() {
		return state, nil
	}
	waited, err := l.tools.waitPredecessors(ctx)
	if err != nil {
		return nil, err
	}
	name, err := l.activePool(ctx)
	if err != nil {
		return nil, err
	}
	if !state.errorWhenFull {
		if err := l.runChange(ctx, "lvchange", "--errorwhenfull", "y", l.name()); err != nil {
			return nil, fmt.Errorf("set pool %s to fail writes when it is full: %w", l.name(), err)
		}
	}
	if waited || !state.errorWhenFull {
		if state, err = l.verifyIdentity(l.states.refresh(ctx)); err != nil {
			return nil, err
		}
	}
	if state, err = l.resumeSuspended(ctx, name, state); err != nil {
		return nil, err
	}
	if err := l.metadata.releaseStale(ctx, name); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prepared = true
	return state, nil
}

// activePool is the pool's device-mapper name; the pool is activated if it is not active.
func (l *changeLock) activePool(ctx context.Context) (name string, err error) {
	name, _, err = l.poolDevice()
	if !isAbsent(err) {
		return name, err
	}
	if err := l.tools.runChange(ctx, activateTimeout, "lvchange", "-ay", l.name()); err != nil {
		return "", &absentError{fmt.Sprintf("pool %s is absent: it cannot be activated: %v", l.name(), err)}
	}
	name, _, err = l.poolDevice()
	return name, err
}

// resumeSuspended resumes devices that a killed command left suspended, which blocks their
// writers. LVM's lock was free between the two checks, so no command is working on a device that
// is suspended in both.
func (l *changeLock) resumeSuspended(ctx context.Context, pool string, state *poolState) (*poolState, error) {
	before, err := l.suspendedDevices(pool, state)
	if err != nil || len(before) == 0 {
		return state, err
	}
	if state, err = l.verifyIdentity(l.states.refresh(ctx)); err != nil {
		return nil, err
	}
	after, err := l.suspendedDevices(pool, state)
	if err != nil {
		return nil, err
	}
	for _, name := range after {
		if !slices.Contains(before, name) {
			continue
		}
		if err := l.tools.dmsetup(ctx, "resume", name); err != nil {
			return nil, fmt.Errorf("resume %s, which was left suspended: %w", name, err)
		}
	}
	return state, nil
}

// suspendedDevices returns which of our devices are suspended, lower layers first.
func (l *changeLock) suspendedDevices(pool string, state *poolState) ([]string, error) {
	names := []string{pool}
	for _, lv := range state.volumes {
		if lv.hasTag(tagOurs) {
			names = append(names, dmName(l.VG, lv.name), dmName(l.VG, lv.name, layerSuffix))
		}
	}
	slices.SortStableFunc(names[1:], func(a, b string) int { return len(a) - len(b) })
	var found []string
	for _, name := range names {
		d, err := l.kernel.device(name)
		if err != nil {
			return nil, err
		}
		if d != nil && d.suspended {
			found = append(found, name)
		}
	}
	return found, nil
}
