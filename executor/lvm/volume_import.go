package lvm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.ImportBackend = (*Pool)(nil)

// importTag marks a logical volume that is, or is being made, a volume by an import, and keeps its former name.
func importTag(id fsm.VolumeID, former string) string { return tagImport + string(id) + "/" + former }

// importedAs is the volume that a logical volume was imported as, and its former name; empty for others.
func (lv *logicalVolume) importedAs() (id fsm.VolumeID, former string) {
	owner, former, _ := strings.Cut(lv.tagValue(tagImport), "/")
	if id = fsm.VolumeID(owner); !id.Valid() || !namePattern.MatchString(former) {
		return "", ""
	}
	return id, former
}

// isImporting reports whether an import of the volume, or its end, was begun and is not done.
func (s *poolState) isImporting(id string) bool {
	name, begun := s.imports[fsm.VolumeID(id)]
	lv := s.volumes[name]
	return begun && !lv.hasTag(tagOurs)
}

// findDevice returns the logical volume with LVM's UUID, nil when there is none.
func (s *poolState) findDevice(uuid string) *logicalVolume {
	for _, lv := range s.volumes {
		if lv.uuid == uuid {
			return &lv
		}
	}
	return nil
}

// Locate finds the logical volume with LVM's UUID. One that is open is InUse.
func (p *Pool) Locate(ctx context.Context, device string) (executor.Device, error) {
	state, err := p.verifyIdentity(p.states.refresh(ctx))
	if err != nil {
		return executor.Device{}, err
	}
	lv := state.findDevice(device)
	if lv == nil {
		return executor.Device{}, fsm.Reject(fsm.Precondition, "pool %s has no logical volume with the UUID %s: it was removed or replaced", p.name(), device)
	}
	found := executor.Device{Exists: true, Size: lv.size}
	d, err := p.kernel.device(dmName(p.VG, lv.name))
	if err != nil || d == nil {
		return found, err
	}
	found.Path, found.Number = d.path(), d.number()
	return found, p.checkNotOpen(lv)
}

// Import gives the logical volume the volume's name and tags, in this order: a tag that keeps the former name, the name,
// the tags of a finished volume, in one command. Each is bound to LVM's UUID, and looked at afterwards.
func (p *Pool) Import(ctx context.Context, id fsm.VolumeID, size int64, device string) error {
	if err := checkID(id); err != nil {
		return err
	}
	done, state, err := p.lock.fresh(ctx)
	if err != nil {
		return err
	}
	defer done()
	imported, err := p.checkImport(state, id, size, device)
	if imported || err != nil {
		return err
	}
	if err := p.volumes.importDevice(ctx, state, id, size, device); err != nil {
		return fmt.Errorf("import %s as volume %s: %w", device, id, err)
	}
	return nil
}

// checkImport refuses what may not be imported, and reports whether it was.
func (p *Pool) checkImport(state *poolState, id fsm.VolumeID, size int64, device string) (imported bool, err error) {
	lv := state.findDevice(device)
	other, taken := state.volumes[string(id)]
	switch {
	case lv == nil:
		return false, fsm.Reject(fsm.Precondition, "pool %s has no logical volume with the UUID %s: it was removed or replaced", p.name(), device)
	case taken && other.uuid != device:
		return false, fsm.Reject(fsm.Incompatible, "volume %s exists, and is not the logical volume with the UUID %s", id, device)
	case taken && lv.hasTag(tagOurs) && lv.hasTag(tagReady):
		_, err := state.checkExisting(id, size)
		return true, err
	case lv.hasTag(tagOurs):
		return false, fsm.Reject(fsm.Precondition, "the logical volume %s is Holdfast's already", lv.name)
	case !namePattern.MatchString(lv.name): // its tag could not be read back
		return false, fsm.Reject(fsm.Precondition, "the name of the logical volume %s is longer than %d characters: rename it", lv.name, maxNameLength)
	case lv.size != size:
		return false, fsm.Reject(fsm.Precondition, "the logical volume %s has %d bytes, not %d", lv.name, lv.size, size)
	case !state.zeroesBlocks:
		return false, fsm.Reject(fsm.Precondition, "pool %s does not zero new blocks, so that a volume would show old data: run `lvchange --zero y %s`", p.name(), p.name())
	}
	if owner, _ := lv.importedAs(); owner != "" && owner != id {
		return false, fsm.Reject(fsm.Precondition, "the logical volume %s is being imported as volume %s", lv.name, owner)
	}
	return false, p.checkNotOpen(lv)
}

func (p *thinPool) checkNotOpen(lv *logicalVolume) error {
	d, err := p.kernel.device(dmName(p.VG, lv.name))
	if err == nil && d != nil && d.open > 0 {
		err = fsm.Reject(fsm.InUse, "the logical volume %s is open: end what uses it", lv.name)
	}
	return err
}

// importDevice does the steps that are left.
func (t *thinVolumes) importDevice(ctx context.Context, state *poolState, id fsm.VolumeID, size int64, device string) (err error) {
	lv := state.findDevice(device)
	if owner, _ := lv.importedAs(); owner != id {
		if lv, err = t.changeTags(ctx, device, "--addtag", importTag(id, lv.name)); err != nil {
			return err
		}
		if owner, _ := lv.importedAs(); owner != id {
			return errNotMarked
		}
	}
	if lv.name != string(id) {
		if lv, err = t.renameDevice(ctx, device, lv.name, string(id)); err != nil {
			return err
		}
	}
	if err = t.checkNotOpen(lv); err != nil { // opened by its former name meanwhile
		return err
	}
	_, err = t.changeTags(ctx, device, "--addtag", tagOurs, "--addtag", sizeTag(size), "--addtag", tagReady)
	return err
}

var errNotMarked = errors.New("LVM did not change its tags")

// changeTags changes the tags of the logical volume with LVM's UUID, whatever has its name by now.
func (t *thinVolumes) changeTags(ctx context.Context, device string, change ...string) (*logicalVolume, error) {
	if err := t.runChange(ctx, "lvchange", append(change, "-S", `lv_uuid="`+device+`"`, t.VG)...); err != nil {
		return nil, fmt.Errorf("change its tags: %w", err)
	}
	return t.refreshDevice(ctx, device)
}

// renameDevice renames a logical volume. LVM renames by name only: where another one had it by then, that is undone.
func (t *thinVolumes) renameDevice(ctx context.Context, device, from, to string) (*logicalVolume, error) {
	if err := t.rename(ctx, from, to); err != nil {
		return nil, err
	}
	lv, err := t.refreshDevice(ctx, device)
	if err == nil && lv.name != to {
		return nil, errors.Join(fsm.Reject(fsm.Precondition, "the logical volume %s was replaced by another one", from), t.rename(ctx, to, from))
	}
	return lv, err
}

func (t *thinVolumes) refreshDevice(ctx context.Context, device string) (*logicalVolume, error) {
	state, err := t.verifyIdentity(t.states.refresh(ctx))
	if err != nil {
		return nil, err
	}
	lv := state.findDevice(device)
	if lv == nil {
		return nil, fsm.Reject(fsm.Precondition, "pool %s has no logical volume with the UUID %s any more", t.name(), device)
	}
	return lv, nil
}

// GiveBack removes the tags of a volume, gives the logical volume its former name, and removes the tag that kept that.
func (p *Pool) GiveBack(ctx context.Context, id fsm.VolumeID, device string) error {
	if err := checkID(id); err != nil {
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
	if state, err = p.volumes.removeLeftovers(ctx, state, string(id)); err != nil {
		return err
	}
	given, err := p.checkGiveBack(state, id, device)
	if given || err != nil {
		return err
	}
	if err := p.volumes.giveBackDevice(ctx, state, id, device); err != nil {
		return fmt.Errorf("give back %s, which was volume %s: %w", device, id, err)
	}
	return nil
}

// checkGiveBack refuses to give back what is not the device, and reports whether it was given back.
func (p *Pool) checkGiveBack(state *poolState, id fsm.VolumeID, device string) (given bool, err error) {
	lv := state.findDevice(device)
	if other, taken := state.volumes[string(id)]; taken && other.uuid != device && other.hasTag(tagOurs) {
		return false, fsm.Reject(fsm.Precondition, "volume %s is not the logical volume with the UUID %s any more: its content was reverted since", id, device)
	}
	if lv == nil {
		return true, nil
	}
	owner, former := lv.importedAs()
	if owner != id {
		return true, nil
	}
	if other, taken := state.volumes[former]; taken && other.uuid != device {
		return false, fsm.Reject(fsm.Precondition, "give back volume %s: another logical volume is called %s by now: rename that", id, former)
	}
	return false, nil
}

// giveBackDevice does the steps that are left. The tag with the former name is the last to go.
func (t *thinVolumes) giveBackDevice(ctx context.Context, state *poolState, id fsm.VolumeID, device string) (err error) {
	lv := state.findDevice(device)
	_, former := lv.importedAs()
	if lv.hasTag(tagOurs) {
		size := sizeTag(lv.size)
		if value := lv.tagValue(tagSize); value != "" {
			size = tagSize + value
		}
		if lv, err = t.changeTags(ctx, device, "--deltag", tagReady, "--deltag", size, "--deltag", tagOurs); err != nil {
			return err
		}
	}
	if lv.name == string(id) {
		if _, err = t.renameDevice(ctx, device, lv.name, former); err != nil {
			return err
		}
	}
	_, err = t.changeTags(ctx, device, "--deltag", importTag(id, former))
	return err
}
