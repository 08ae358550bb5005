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

// prepare makes a pool fit for use that this process uses for the first time: active, failing
// writes when it is full, and without what a killed process left unfinished. The caller holds the
// change lock. It returns the state afterwards.
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

// activePool is the pool's device-mapper name; the pool is activated if it is not active.
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

// resumeSuspended resumes devices that a killed command left suspended, which blocks their
// writers. LVM's lock was free between the two checks, so no command is working on a device that
// is suspended in both.
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

// suspendedDevices returns which of our devices are suspended, lower layers first.
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

// checkOrphans looks for thin devices in the pool's metadata that LVM does not know: LVM would use
// one for a new volume, and expose its data. They are not removed, since their owner is unknown.
// The caller holds the change lock.
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

// setNoOrphans records whether all of the pool's thin devices are known to LVM. A command that
// failed may have left one that is not.
func (p *Pool) setNoOrphans(noOrphans bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noOrphans = noOrphans
}

// unknownThinIDs are the thin devices of a list that belong to no logical volume.
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

// runChange runs a command that changes the pool. It invalidates the cached state, also when the
// command fails.
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
		p.prepared = false // it was killed, and may have left devices suspended
		p.mu.Unlock()
	}
	return err
}
