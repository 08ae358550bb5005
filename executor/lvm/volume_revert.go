package lvm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Revert makes a thin snapshot of the snapshot, and then gives it the volume's name. Its tags are
// those that CreateFrom gives.
func (p *Pool) Revert(ctx context.Context, id fsm.VolumeID, to fsm.SnapshotID) error {
	if err := errors.Join(checkID(id), checkSnapshotID(to)); err != nil {
		return err
	}
	done, state, err := p.lock.fresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := p.layers.checkNone(id); err != nil {
		return err
	}
	if _, _, err := p.findVolume(state, id); err != nil {
		return err
	}
	from, size, err := state.findReady(string(to))
	if err == nil && from == nil {
		err = fsm.Reject(fsm.Precondition, "there is no snapshot %s in pool %s", to, p.name())
	}
	if err != nil {
		return err
	}
	return p.volumes.revert(ctx, state, string(id), &thinCopy{name: string(id) + revertedSuffix, from: from.name, permission: "-prw", size: size})
}

// revert makes a copy, and renames it to the volume. The old volume goes last.
func (t *thinVolumes) revert(ctx context.Context, state *poolState, name string, c *thinCopy) error {
	if err := t.checkUnused(ctx, state, name); err != nil {
		return err
	}
	state, err := t.removeLeftovers(ctx, state, name)
	if err != nil {
		return err
	}
	if err := t.checkAcceptsNew(ctx, state); err != nil {
		return err
	}
	if err := t.copy(ctx, c); err != nil {
		return err
	}
	for _, names := range [][2]string{{name, name + replacedSuffix}, {c.name, name}} {
		if err := t.rename(ctx, names[0], names[1]); err != nil {
			return err
		}
	}
	return t.lvremove(ctx, name+replacedSuffix)
}

// checkUnused refuses a volume whose logical volume somebody has open, without a block device on
// top: it could not be removed.
func (t *thinVolumes) checkUnused(ctx context.Context, state *poolState, name string) error {
	if err := t.deactivateLV(ctx, state, name); err != nil {
		return err
	}
	d, err := t.kernel.device(dmName(t.VG, name))
	if err == nil && d != nil {
		err = fsm.Reject(fsm.InUse, "the logical volume %s in pool %s is in use", name, t.name())
	}
	return err
}

// removeLeftovers removes what an interrupted Revert left beside the volume, and returns the state
// afterwards. There is nothing that the volume needs: see changeLock.finishReverts.
func (t *thinVolumes) removeLeftovers(ctx context.Context, state *poolState, name string) (*poolState, error) {
	if !state.hasLeftover(name) {
		return state, nil
	}
	for _, suffix := range []string{revertedSuffix, replacedSuffix} {
		lv, err := state.findOurs(name + suffix)
		if err == nil && lv != nil {
			err = t.lvremove(ctx, lv.name)
		}
		if err != nil {
			return nil, err
		}
	}
	return t.verifyIdentity(t.states.refresh(ctx))
}

func (p *thinPool) rename(ctx context.Context, from, to string) error {
	if err := p.runChange(ctx, "lvrename", p.VG, from, to); err != nil {
		return p.commandError(fmt.Sprintf("give the name %s to", to), from, err)
	}
	return nil
}

// finishReverts gives the volume's name to what an interrupted Revert left without it. The caller
// holds the lock. It returns the state afterwards.
func (l *changeLock) finishReverts(ctx context.Context, state *poolState) (*poolState, error) {
	finished := false
	for _, name := range slices.Sorted(maps.Keys(state.volumes)) {
		id := ownerOf(name)
		made := state.findReverted(string(id))
		if !id.Valid() || made == nil || made.name != name {
			continue
		}
		if err := l.rename(ctx, name, string(id)); err != nil {
			return nil, fmt.Errorf("finish the revert of volume %s: %w", id, err)
		}
		finished = true
	}
	if !finished {
		return state, nil
	}
	return l.verifyIdentity(l.states.refresh(ctx))
}
