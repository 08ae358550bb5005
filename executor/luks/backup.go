package luks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/durablefile"
)

// What a backup is called until it is complete, and what the one before is called until it is overwritten.
const newSuffix, oldSuffix = ".new", ".old"

// BackUpHeader writes the header to a file that replaces the one before, which may hold a key that was
// removed since (S65). That one has a second name until it is overwritten, so that a crash leaves it to be found.
func (t *Tool) BackUpHeader(ctx context.Context, device, file string) error {
	if err := t.replaceBackup(ctx, device, file); err != nil {
		return fmt.Errorf("back the header of %s up: %w", device, err)
	}
	return nil
}

func (t *Tool) replaceBackup(ctx context.Context, device, file string) error {
	made := file + newSuffix
	if err := errors.Join(overwrite(made), t.overwriteReplaced(file)); err != nil {
		return err
	}
	if _, err := t.run(ctx, nil, "luksHeaderBackup", device, "--header-backup-file", made); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(made, 0o600), syncPath(made)); err != nil {
		return err
	}
	if err := os.Link(file, file+oldSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := errors.Join(os.Rename(made, file), durablefile.SyncDir(filepath.Dir(file))); err != nil {
		return err
	}
	return t.overwriteReplaced(file)
}

// overwriteReplaced overwrites the backup that was replaced. Interrupted before the replacement it is the one that
// is in use, and only loses its second name.
func (*Tool) overwriteReplaced(file string) error {
	old, err := os.Lstat(file + oldSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	used, usedErr := os.Lstat(file)
	if errors.Is(usedErr, os.ErrNotExist) {
		usedErr = nil
	}
	switch err := errors.Join(err, usedErr); {
	case err != nil:
		return err
	case used != nil && os.SameFile(old, used):
		return os.Remove(file + oldSuffix)
	}
	return overwrite(file + oldSuffix)
}

// RemoveBackup overwrites a backup, and what was left beside it, with zeros and removes them. Where the filesystem
// or the disk below it writes elsewhere, they decide for how long the blocks of before can be read.
func (*Tool) RemoveBackup(_ context.Context, file string) error {
	if err := errors.Join(overwrite(file+newSuffix), overwrite(file+oldSuffix), overwrite(file)); err != nil {
		return fmt.Errorf("remove the backup of a header: %w", err)
	}
	return nil
}

// overwrite writes zeros over a file, and removes it when they are on the disk. Not there is success.
func overwrite(file string) error {
	if err := os.Chmod(file, 0o600); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = io.CopyN(f, zeros{}, info.Size())
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Remove(file), durablefile.SyncDir(filepath.Dir(file)))
}

// zeros reads as zeros without an end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
