package lvm

import (
	"context"
	"maps"
	"slices"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Inventory lists what Holdfast owns in the pool, and the block devices on top. An absent pool is
// an error: its content is unknown.
func (p *Pool) Inventory(ctx context.Context) ([]executor.InventoryItem, error) {
	state, err := p.verifyIdentity(p.states.refresh(ctx))
	if err != nil {
		return nil, err
	}
	var items []executor.InventoryItem
	for _, name := range slices.Sorted(maps.Keys(state.volumes)) {
		lv := state.volumes[name]
		if id, _ := lv.importedAs(); id != "" && state.isImporting(string(id)) {
			items = append(items, executor.InventoryItem{Kind: executor.KindUnfinished, Volume: id, Path: p.lvPath(lv.name)})
		}
		if !lv.hasTag(tagOurs) {
			continue
		}
		items = append(items, p.inventoryItem(state, &lv))
		if !fsm.VolumeID(name).Valid() {
			continue
		}
		layerDev, err := p.kernel.device(p.layerName(fsm.VolumeID(name)))
		if err != nil {
			return nil, err
		}
		if layerDev != nil {
			items = append(items, executor.InventoryItem{Kind: executor.KindDevice, Volume: fsm.VolumeID(name), Path: layerDev.path()})
		}
	}
	return items, nil
}

func (p *thinPool) inventoryItem(state *poolState, lv *logicalVolume) executor.InventoryItem {
	item := executor.InventoryItem{Kind: executor.KindUnfinished, Path: p.lvPath(lv.name)}
	if state.isImage(lv) {
		item.Kind = executor.KindImage
	}
	if id := fsm.SnapshotID(lv.name); id.Valid() {
		item.Snapshot = id
		if lv.hasTag(tagReady) {
			item.Kind = executor.KindSnapshot
		}
	} else {
		item.Volume = ownerOf(lv.name)
	}
	return item
}

// isImage reports whether a logical volume is finished, and is no leftover of a Revert.
func (s *poolState) isImage(lv *logicalVolume) bool {
	owner := string(ownerOf(lv.name))
	reverted := s.findReverted(owner)
	return lv.hasTag(tagReady) && (owner == lv.name || reverted != nil && reverted.name == lv.name)
}
