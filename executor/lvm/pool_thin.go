package lvm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

// thinPool is the thin pool as LVM and the kernel show it, and what this process knows of it. The
// parts of a Pool share one.
type thinPool struct {
	Config
	id     fsm.PoolID
	tools  *tools
	kernel dmReader
	states *stateCache

	mu        sync.Mutex
	firstUUID string // the pool's UUID when it was first observed
	prepared  bool   // the pool is fit for use: see changeLock.prepare
	noOrphans bool   // no thin device unknown to LVM was found
	copyRate  int64  // bytes a second; 0: not measured
}

func newThinPool(cfg Config, t *tools) *thinPool {
	p := &thinPool{Config: cfg, id: cfg.KnownID, tools: t, kernel: kernelDM{}}
	p.states = newStateCache(p.readState)
	return p
}

// name is the pool's name for LVM's commands.
func (p *thinPool) name() string { return p.VG + "/" + p.ThinPool }

// lvPath is the path of a logical volume, as operators write it.
func (p *thinPool) lvPath(lv string) string { return "/dev/" + p.VG + "/" + lv }

// layerName is the device-mapper name of the device on top of a volume.
func (p *thinPool) layerName(id fsm.VolumeID) string { return dmName(p.VG, string(id), layerSuffix) }

// readState queries LVM for the pool and all that is in it.
func (p *thinPool) readState(ctx context.Context) (*poolState, error) {
	var out bytes.Buffer
	selection := fmt.Sprintf(`pool_lv="%s" || lv_name="%s"`, p.ThinPool, p.ThinPool)
	err := p.tools.query(ctx, &out, "lvs", "--reportformat", "json", "--units", "b", "--nosuffix", "-o", lvsColumns, "-S", selection, p.VG)
	if err != nil {
		return nil, fmt.Errorf("query LVM for pool %s: %w", p.name(), err)
	}
	return parsePoolState(out.Bytes(), p.ThinPool)
}

// recentState returns the cached or a new state. It includes every change that this Pool has made.
func (p *thinPool) recentState(ctx context.Context) (*poolState, error) {
	return p.verifyIdentity(p.states.get(ctx))
}

// runChange runs a command that changes the pool. It invalidates the cached state, also when the
// command fails.
func (p *thinPool) runChange(ctx context.Context, command string, args ...string) error {
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

// setNoOrphans records whether all of the pool's thin devices are known to LVM. A command that
// failed may have left one that is not.
func (p *thinPool) setNoOrphans(noOrphans bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noOrphans = noOrphans
}

// commandError wraps the error of a command on a volume; it is a rejection where the failure is a
// known one.
func (p *thinPool) commandError(action, name string, err error) error {
	switch {
	case errors.Is(err, errFull):
		return fsm.Reject(fsm.NoCapacity, "%s %s in pool %s: the pool is full", action, name, p.name())
	case errors.Is(err, errInUse):
		return fsm.Reject(fsm.InUse, "%s %s in pool %s: it is in use", action, name, p.name())
	case errors.Is(err, errOrphan):
		p.setNoOrphans(false)
	}
	return fmt.Errorf("%s %s in pool %s: %w", action, name, p.name(), err)
}

// findVolume returns a finished volume and its size in bytes; Precondition without one.
func (p *thinPool) findVolume(state *poolState, id fsm.VolumeID) (*logicalVolume, int64, error) {
	lv, size, err := state.findReady(string(id))
	if err == nil && lv == nil {
		err = fsm.Reject(fsm.Precondition, "there is no volume %s in pool %s", id, p.name())
	}
	return lv, size, err
}

// activateLV activates a logical volume in the kernel. That alone does not create the volume's
// block device.
func (p *thinPool) activateLV(ctx context.Context, name string) error {
	current, err := p.kernel.device(dmName(p.VG, name))
	if err != nil || current != nil {
		return err
	}
	if err := p.tools.runChange(ctx, changeTimeout, "lvchange", "-ay", "-K", p.VG+"/"+name); err != nil {
		return fmt.Errorf("activate %s in pool %s: %w", name, p.name(), err)
	}
	return nil
}

// deactivateLV removes the kernel's device of one of our logical volumes; a device that is still
// in use stays.
func (p *thinPool) deactivateLV(ctx context.Context, state *poolState, name string) error {
	lv, err := state.findOurs(name)
	if err != nil || lv == nil {
		return err
	}
	current, err := p.kernel.device(dmName(p.VG, name))
	if err != nil || current == nil || current.open > 0 {
		return err
	}
	err = p.tools.runChange(ctx, changeTimeout, "lvchange", "-an", p.VG+"/"+name)
	if err != nil && !errors.Is(err, errInUse) {
		return fmt.Errorf("deactivate %s in pool %s: %w", name, p.name(), err)
	}
	return nil
}
