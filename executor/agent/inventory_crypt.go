package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// headersTimeout bounds the reading of all headers in one inventory: what was not read by then is not known.
const headersTimeout = 4 * time.Second

// withEncryption adds the mappings and the copies of headers, and what header the images of encrypted volumes
// have. Nothing is opened, and no passphrase is needed.
func (l *lister) withEncryption(ctx context.Context, all []executor.InventoryItem) ([]executor.InventoryItem, error) {
	mappings, err := l.mappingItems(ctx)
	if err != nil {
		return nil, err
	}
	backups, err := l.headerBackups()
	if err != nil {
		return nil, err
	}
	all = append(all, backups...)
	ctx, cancel := context.WithTimeout(ctx, headersTimeout)
	defer cancel()
	for i := range all {
		if all[i].Kind == executor.KindHeaderBackup || all[i].Kind == executor.KindImage && l.isKnownEncrypted(all[i].Volume) {
			all[i].HeaderUUID, all[i].HeaderRead = l.readHeader(ctx, all[i].Path)
		}
	}
	return append(all, mappings...), nil
}

func (l *lister) isKnownEncrypted(id fsm.VolumeID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.volumes[id]
	return v != nil && v.headerBytes() > 0
}

// mappingItems lists the mappings, and whether each is above the device of its volume.
func (l *lister) mappingItems(ctx context.Context) (all []executor.InventoryItem, err error) {
	mappings, err := l.Encryptor.Mappings(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range mappings {
		item := executor.InventoryItem{Kind: executor.KindMapping, Volume: m.Volume, Path: m.Path, HeaderUUID: m.UUID, HeaderRead: m.UUID != ""}
		if item.WrongDevice, err = l.wrongDevice(ctx, m); err != nil {
			return nil, err
		}
		all = append(all, item)
	}
	return all, nil
}

// wrongDevice is the device below the mapping where that is not the volume's: DRBD's of a replicated one, else the
// pool's.
func (l *lister) wrongDevice(ctx context.Context, m executor.LUKSMapping) (string, error) {
	l.mu.Lock()
	v := l.volumes[m.Volume]
	l.mu.Unlock()
	if v == nil || m.Below.Number == 0 {
		return "", nil
	}
	backend, err := l.poolSet.backend(v)
	if err != nil {
		return "", nil //nolint:nilerr // its pool is not on this host: which device is its own is not known
	}
	device, _, err := observeDevice(ctx, backend, m.Volume)
	if err != nil {
		return "", fmt.Errorf("look at the device below %s: %w", m.Path, err)
	}
	if device.Absent || device.Number == m.Below.Number {
		return "", nil
	}
	return m.Below.Path, nil
}

// headerBackups lists the copies of headers in the data directory, unfinished ones included: they may
// hold a key that is not in use any more (S65).
func (t *table) headerBackups() (all []executor.InventoryItem, err error) {
	dir := filepath.Join(t.Host.Dir(), headersDir)
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list the copies of headers: %w", err)
	}
	for _, f := range files {
		item := executor.InventoryItem{Kind: executor.KindHeaderBackup, Path: filepath.Join(dir, f.Name())}
		name, unfinished := strings.CutSuffix(f.Name(), ".new")
		if id := fsm.VolumeID(strings.TrimSuffix(name, ".luks")); id.Valid() {
			item.Volume = id
		}
		if unfinished && t.isBusy(item.Volume) {
			continue // it may be written now
		}
		if unfinished {
			item.Kind = executor.KindUnfinished
		}
		all = append(all, item)
	}
	return all, nil
}

// isBusy reports whether work on the volume is under way.
func (t *table) isBusy(id fsm.VolumeID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.volumes[id]
	return v != nil && len(v.lock) > 0
}

// readHeader reads one header, and gives up when ctx ends: a device that hangs keeps one reader, not the inventory.
func (l *lister) readHeader(ctx context.Context, path string) (uuid string, known bool) {
	select {
	case l.reading <- struct{}{}:
	case <-ctx.Done():
		return "", false
	}
	type result struct {
		uuid string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-l.reading }()
		uuid, err := l.Encryptor.HeaderUUID(ctx, path)
		done <- result{uuid, err}
	}()
	select {
	case r := <-done:
		return r.uuid, r.err == nil
	case <-ctx.Done():
		return "", false
	}
}
