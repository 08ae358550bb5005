package loopfile

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Inventory lists the files below volumes/, snapshots/ and tmp/ and the loop devices over files
// below the pool, except that of the pool's own filesystem. An absent pool is an error: its
// content is unknown.
func (p *Pool) Inventory(context.Context) ([]executor.InventoryItem, error) {
	root, err := p.open()
	if err != nil {
		return nil, err
	}
	defer closeRoot(root)
	var items []executor.InventoryItem
	for _, folder := range []struct{ name, kind string }{{volumesDir, executor.KindImage}, {snapshotsDir, executor.KindSnapshot}, {tmpDir, executor.KindUnfinished}} {
		found, err := p.files(root, folder.name, folder.kind)
		if err != nil {
			return nil, err
		}
		items = append(items, found...)
	}
	all, err := listBound()
	if err != nil {
		return nil, fmt.Errorf("list loop devices: %w", err)
	}
	for _, b := range all {
		id, ok, err := b.volumeIn(p.poolDir)
		if err == nil && !ok && b.file != p.dir+"/"+FilesystemImage {
			ok, err = b.isBelow(p.dir)
		}
		if err != nil {
			return nil, err
		}
		if ok {
			items = append(items, executor.InventoryItem{Kind: "loop", Volume: id, Path: devicePath(b.number)})
		}
	}
	return items, nil
}

func (p *poolDir) files(root *os.Root, folder, kind string) ([]executor.InventoryItem, error) {
	entries, err := fs.ReadDir(root.FS(), folder)
	if err != nil {
		return nil, fmt.Errorf("list %s of pool %s: %w", folder, p.dir, err)
	}
	var items []executor.InventoryItem
	for _, e := range entries {
		item := executor.InventoryItem{Kind: kind, Path: filepath.Join(p.dir, folder, e.Name())}
		if id, ok := strings.CutSuffix(e.Name(), ".img"); ok && fsm.VolumeID(id).Valid() {
			item.Volume = fsm.VolumeID(id)
		} else if ok && fsm.SnapshotID(id).Valid() {
			item.Snapshot = fsm.SnapshotID(id)
		}
		items = append(items, item)
	}
	return items, nil
}
