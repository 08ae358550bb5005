package lvm

import (
	"context"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Inventory lists what is ours in the pool, and the block devices on top. An absent
// pool is an error: nothing can be said of it.
func (p *Pool) Inventory(ctx context.Context) ([]executor.InventoryItem, error) {
	v, err := p.verified(p.views.fresh(ctx))
	if err != nil {
		return nil, err
	}
	var items []executor.InventoryItem
	for _, name := range slices.Sorted(maps.Keys(v.volumes)) {
		lv := v.volumes[name]
		if !lv.has(tagOurs) {
			continue
		}
		items = append(items, p.item(&lv))
		if !fsm.VolumeID(name).Valid() {
			continue
		}
		on, err := p.kernel.device(p.layerName(fsm.VolumeID(name)))
		if err != nil {
			return nil, err
		}
		if on != nil {
			items = append(items, executor.InventoryItem{Kind: executor.KindDevice, Volume: fsm.VolumeID(name), Path: on.path()})
		}
	}
	return items, nil
}

func (p *Pool) item(lv *volume) executor.InventoryItem {
	item := executor.InventoryItem{Kind: executor.KindUnfinished, Path: p.path(lv.name)}
	if lv.has(tagReady) {
		item.Kind = executor.KindImage
	}
	if id := fsm.SnapshotID(lv.name); id.Valid() {
		item.Snapshot = id
		if lv.has(tagReady) {
			item.Kind = executor.KindSnapshot
		}
	} else {
		item.Volume = fsm.VolumeID(lv.name)
	}
	return item
}
