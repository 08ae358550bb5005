package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/fsm"
)

const headersDir = "headers"

// headerBackup is the file that has a copy of the volume's header.
func (t *table) headerBackup(id fsm.VolumeID) string {
	return filepath.Join(t.Host.Dir(), headersDir, string(id)+".luks")
}

// removeHeaderBackup removes the copy: with it, and an old key, who has the blocks could read them (S65).
func (t *table) removeHeaderBackup(ctx context.Context, id fsm.VolumeID) error {
	if t.Encryptor == nil {
		return fsm.Reject(fsm.Precondition, "the copy of the header of volume %s cannot be removed: this host cannot encrypt", id)
	}
	if err := t.Encryptor.RemoveBackup(ctx, t.headerBackup(id)); err != nil {
		return fmt.Errorf("remove the copy of the header of volume %s: %w", id, err)
	}
	return nil
}

// backUpHeader replaces the copy of the header in the data directory, and records the generation of the key that it
// is of: a copy of another one is removed before that, so that none counts for what it is not. The caller holds the volume's lock.
func (rc *recorder) backUpHeader(ctx context.Context, v *volume, below string, generation uint64) error {
	file := rc.headerBackup(v.id)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("keep a copy of the header of volume %s: %w", v.id, err)
	}
	if v.record.HeaderGeneration != generation {
		if err := rc.removeHeaderBackup(ctx, v.id); err != nil {
			return err
		}
		rc.hitFaultPoint("header-backup.removed")
		if err := rc.recordHeaderGeneration(v, generation); err != nil {
			return err
		}
	}
	if err := rc.Encryptor.BackUpHeader(ctx, below, file); err != nil {
		return err
	}
	v.crypt.backedUp = true
	return nil
}

// recordHeaderGeneration records of which generation the copy is. The caller holds the volume's lock.
func (rc *recorder) recordHeaderGeneration(v *volume, generation uint64) error {
	v.record.HeaderGeneration = generation
	return rc.saveRecord(v, true)
}

// removeStaleBackup removes a copy of the header of before a rotation, as soon as this host learns that the rotation
// was done: a key of before opens it (S65). It waits for nothing else, and not for this host's adoption: the number only grows.
func (w *volumeWorker) removeStaleBackup(ctx context.Context, v *volume) error {
	w.mu.Lock()
	stale := v.desired != nil && v.desired.KeyGeneration > v.record.HeaderGeneration
	w.mu.Unlock()
	if !stale || w.Encryptor == nil && !w.hasHeaderBackup(v.id) {
		return nil
	}
	w.hitFaultPoint("stale-header.before")
	err := w.removeHeaderBackup(ctx, v.id)
	w.hitFaultPoint("stale-header.after")
	return err
}

func (t *table) hasHeaderBackup(id fsm.VolumeID) bool {
	_, err := os.Lstat(t.headerBackup(id))
	return !errors.Is(err, os.ErrNotExist)
}
