package lvm

import (
	"context"
	"errors"
	"fmt"
)

// thinVolumes creates and removes thin volumes, which are Holdfast's volumes and snapshots. The
// callers hold the change lock.
type thinVolumes struct {
	*thinPool
	metadata *metadataSnap
}

// prepareCreate checks that the pool accepts new volumes, and removes what an interrupted attempt
// left under the name.
func (t *thinVolumes) prepareCreate(ctx context.Context, state *poolState, name string) error {
	if err := t.checkAcceptsNew(ctx, state); err != nil {
		return err
	}
	unfinished, err := state.findOurs(name)
	if err != nil || unfinished == nil {
		return err
	}
	return t.removeUnfinished(ctx, unfinished)
}

// create creates a volume that reads as zero, and marks it ready once that was checked.
func (t *thinVolumes) create(ctx context.Context, state *poolState, name string, size int64) error {
	if err := t.prepareCreate(ctx, state, name); err != nil {
		return err
	}
	err := t.runChange(ctx, "lvcreate", "-T", t.name(), "-n", name, "-V", fmt.Sprintf("%db", size),
		"-ky", "-K", "-W", "n", "--addtag", tagOurs, "--addtag", sizeTag(size))
	if err != nil {
		return t.commandError("create volume", name, err)
	}
	created, err := t.checkEmpty(name, size)
	if err != nil {
		t.setNoOrphans(false)
		return err
	}
	if err := t.markReady(ctx, name); err != nil {
		return err
	}
	created.tags = []string{tagOurs, tagReady, sizeTag(size)}
	t.states.store(state.with(created))
	return nil
}

// markReady tags a volume or snapshot as finished.
func (t *thinVolumes) markReady(ctx context.Context, name string) error {
	if err := t.runChange(ctx, "lvchange", "--addtag", tagReady, t.VG+"/"+name); err != nil {
		return t.commandError("finish", name, err)
	}
	return nil
}

// extendVolume makes a volume larger and records its new size, which may be what an interrupted
// attempt left out.
func (t *thinVolumes) extendVolume(ctx context.Context, lv *logicalVolume, current, size int64) error {
	if lv.size < size {
		if err := t.extend(ctx, lv.name, size); err != nil {
			return err
		}
	}
	if err := t.recordSize(ctx, lv.name, current, size); err != nil {
		return fmt.Errorf("grow volume %s: %w", lv.name, err)
	}
	return nil
}

// recordSize replaces the tag with a volume's size in bytes.
func (t *thinVolumes) recordSize(ctx context.Context, name string, old, size int64) error {
	if err := t.runChange(ctx, "lvchange", "--deltag", sizeTag(old), "--addtag", sizeTag(size), t.VG+"/"+name); err != nil {
		return fmt.Errorf("record its size: %w", err)
	}
	return nil
}

// extend makes a logical volume at least size bytes large. What is added reads as zero.
func (t *thinVolumes) extend(ctx context.Context, name string, size int64) error {
	err := t.runChange(ctx, "lvextend", "-L", fmt.Sprintf("%db", size), t.VG+"/"+name)
	if err != nil && !errors.Is(err, errSameSize) {
		return t.commandError("extend", name, err)
	}
	return nil
}

// remove removes a volume or snapshot of Holdfast's, finished or not. A missing one is no error.
func (t *thinVolumes) remove(ctx context.Context, state *poolState, name string) error {
	lv, err := state.findOurs(name)
	switch {
	case err != nil || lv == nil:
		return err
	case !lv.hasTag(tagReady):
		err = t.removeUnfinished(ctx, lv)
	default:
		err = t.lvremove(ctx, name)
	}
	if err == nil {
		t.states.store(state.without(name))
	}
	return err
}

func (t *thinVolumes) lvremove(ctx context.Context, name string) error {
	if err := t.runChange(ctx, "lvremove", "-f", t.VG+"/"+name); err != nil && !errors.Is(err, errMissing) {
		return t.commandError("remove", name, err)
	}
	return nil
}

// removeUnfinished removes what an interrupted attempt left. What was created empty must still be
// empty: otherwise it exposes the data of a device that LVM had lost.
func (t *thinVolumes) removeUnfinished(ctx context.Context, lv *logicalVolume) error {
	if lv.tagValue(tagFrom) == "" {
		if err := t.activateLV(ctx, lv.name); err != nil {
			return err
		}
		size, err := lv.taggedSize()
		if err != nil {
			return err
		}
		if _, err := t.checkEmpty(lv.name, size); err != nil {
			return fmt.Errorf("remove what an interrupted attempt left: %w", err)
		}
	}
	return t.lvremove(ctx, lv.name)
}
