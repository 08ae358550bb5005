package lvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-storage/holdfast/executor/run"
)

func (p *Pool) isPrepared() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prepared
}

// prepare makes a pool that this process meets for the first time fit for use: active,
// failing when it is full, and without what a predecessor that was killed left half
// done. The caller is alone. It returns the view that holds afterwards.
func (p *Pool) prepare(ctx context.Context, v *poolState) (*poolState, error) {
	if p.isPrepared() {
		return v, nil
	}
	waited, err := p.tools.waitPredecessors(ctx)
	if err != nil {
		return nil, err
	}
	name, err := p.activePool(ctx)
	if err != nil {
		return nil, err
	}
	if !v.errorWhenFull {
		if err := p.runChange(ctx, "lvchange", "--errorwhenfull", "y", p.name()); err != nil {
			return nil, fmt.Errorf("have pool %s fail when it is full: %w", p.name(), err)
		}
	}
	if waited || !v.errorWhenFull {
		if v, err = p.verifyIdentity(p.states.refresh(ctx)); err != nil {
			return nil, err
		}
	}
	if v, err = p.resumeSuspended(ctx, name, v); err != nil {
		return nil, err
	}
	if err := p.releaseStaleMetadataSnap(ctx, name); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared = true
	return v, nil
}

// activePool is the pool in the device mapper, activated if it is not.
func (p *Pool) activePool(ctx context.Context) (name string, err error) {
	name, _, err = p.poolDevice()
	if !isAbsent(err) {
		return name, err
	}
	if err := p.tools.runChange(ctx, activateTimeout, "lvchange", "-ay", p.name()); err != nil {
		return "", &absentError{fmt.Sprintf("pool %s is absent: it cannot be activated: %v", p.name(), err)}
	}
	name, _, err = p.poolDevice()
	return name, err
}

// resumeSuspended resumes what a killed command left suspended: its writers hang. Between
// two looks LVM's lock was free, so that nobody is at work on what is suspended in both.
func (p *Pool) resumeSuspended(ctx context.Context, pool string, v *poolState) (*poolState, error) {
	before, err := p.suspendedDevices(pool, v)
	if err != nil || len(before) == 0 {
		return v, err
	}
	if v, err = p.verifyIdentity(p.states.refresh(ctx)); err != nil {
		return nil, err
	}
	after, err := p.suspendedDevices(pool, v)
	if err != nil {
		return nil, err
	}
	for _, name := range after {
		if !slices.Contains(before, name) {
			continue
		}
		if err := p.tools.dmsetup(ctx, "resume", name); err != nil {
			return nil, fmt.Errorf("resume %s, which was left suspended: %w", name, err)
		}
	}
	return v, nil
}

// suspended are our devices that are, the lower ones first.
func (p *Pool) suspendedDevices(pool string, v *poolState) ([]string, error) {
	names := []string{pool}
	for _, lv := range v.volumes {
		if lv.hasTag(tagOurs) {
			names = append(names, dmName(p.VG, lv.name), dmName(p.VG, lv.name, layerSuffix))
		}
	}
	slices.SortStableFunc(names[1:], func(a, b string) int { return len(a) - len(b) })
	var found []string
	for _, name := range names {
		d, err := p.kernel.device(name)
		if err != nil {
			return nil, err
		}
		if d != nil && d.suspended {
			found = append(found, name)
		}
	}
	return found, nil
}

// checkOrphans looks for thin devices in the pool's metadata that LVM does not know:
// it would take one for a new volume, and show what is on it. They are not removed;
// nobody knows whose they are. The caller is alone.
func (p *Pool) checkOrphans(ctx context.Context, pool string, v *poolState) error {
	p.mu.Lock()
	sound := p.noOrphans
	p.mu.Unlock()
	if sound {
		return nil
	}
	var out bytes.Buffer
	err := p.withMetadataSnap(ctx, pool, func(device string) error {
		return p.tools.runThinTool(ctx, &out, "thin_ls", "-m", "--no-headers", "-o", "DEV", device)
	})
	if err != nil {
		return fmt.Errorf("look for thin devices of pool %s that LVM does not know: %w", p.name(), err)
	}
	orphans, err := unknownThinIDs(out.String(), v)
	if err != nil {
		return err
	}
	if len(orphans) > 0 {
		return fmt.Errorf("%w: pool %s takes nothing new, for a new volume could show their data: devices %s; see what they are, and remove them with `dmsetup message %s 0 \"delete ID\"`",
			errOrphan, p.name(), strings.Join(orphans, ", "), pool)
	}
	p.setNoOrphans(true)
	return nil
}

// setNoOrphans remembers whether the pool's devices are known to be LVM's. A command that
// failed may have left one.
func (p *Pool) setNoOrphans(noOrphans bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noOrphans = noOrphans
}

// unknownThinIDs are the thin devices of a list that are no volume's.
func unknownThinIDs(list string, v *poolState) ([]string, error) {
	known := map[uint64]bool{}
	for _, lv := range v.volumes {
		known[lv.thinID] = true
	}
	var orphans []string
	for _, field := range strings.Fields(list) {
		id, err := strconv.ParseUint(field, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("read what thin_ls says: %q is no device", field)
		}
		if !known[id] {
			orphans = append(orphans, field)
		}
	}
	return orphans, nil
}

// changed runs a command that changes what is in the pool. What was seen before holds
// no longer, also when it fails.
func (p *Pool) runChange(ctx context.Context, command string, args ...string) error {
	p.states.invalidate()
	err := p.tools.runChange(ctx, changeTimeout, command, args...)
	p.states.invalidate()
	if err != nil {
		p.setNoOrphans(false)
	}
	var failed *run.Error
	if errors.As(err, &failed) && failed.TimedOut {
		p.mu.Lock()
		p.prepared = false // it was killed, and may have left something suspended
		p.mu.Unlock()
	}
	return err
}
