package raftnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// CheckRestoreTarget refuses a data directory that has anything in it, and one that cannot be renamed onto.
func CheckRestoreTarget(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Stat(filepath.Dir(filepath.Clean(dir))); err != nil {
			return fmt.Errorf("%w: make the folder above %s first: %w", ErrRebuildRefused, dir, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("%w: look into %s: %w", ErrRebuildRefused, dir, err)
	case len(entries) > 0:
		return fmt.Errorf("%w: %s holds %s, and a restore needs an empty data folder: move what is in it away", ErrRebuildRefused, dir, contentOf(dir, entries[0]))
	}
	return checkNoMount(dir)
}

// contentOf says what a directory with something in it holds: a member's data, or the first of its entries.
func contentOf(dir string, first fs.DirEntry) string {
	switch member, cluster := store.Owner(dir); {
	case member == "":
		return first.Name()
	case cluster == "":
		return "the data of member " + member + ", which knows no cluster yet"
	default:
		return "the data of member " + member + " of cluster " + cluster
	}
}

// checkNoMount refuses a mount point: the new directory is made beside it and renamed.
func checkNoMount(dir string) error {
	var own, above unix.Stat_t
	if err := errors.Join(unix.Stat(dir, &own), unix.Stat(filepath.Join(dir, ".."), &above)); err != nil {
		return fmt.Errorf("%w: look at %s: %w", ErrRebuildRefused, dir, err)
	}
	if own.Dev != above.Dev {
		return fmt.Errorf("%w: %s is a mount point, and the folder is made beside it and renamed: choose a folder inside of it", ErrRebuildRefused, dir)
	}
	return nil
}

// Restore makes the data directory of a new member of the state's cluster, in an empty directory. It is made
// beside dir and renamed, so that there is nothing or all of it at any moment; repeated after an interruption it
// begins again.
func Restore(dir string, r Rebuild) (Rebuilt, error) {
	if err := CheckRestoreTarget(dir); err != nil {
		return Rebuilt{}, err
	}
	unfinished := filepath.Clean(dir) + ".restoring"
	if err := removeUnfinished(unfinished); err != nil {
		return Rebuilt{}, fmt.Errorf("begin the restore again: %w", err)
	}
	made, err := r.build(unfinished, Rebuilt{Kind: "restore"}, func() error { return nil })
	if err != nil {
		return made, fmt.Errorf("restore into %s: %w", unfinished, err)
	}
	if err := r.at("marker"); err != nil {
		return made, err
	}
	if err := r.writeMarker(dir, made.Member); err != nil {
		return made, err
	}
	if err := r.at("rename"); err != nil {
		return made, err
	}
	if err := unix.Rename(unfinished, filepath.Clean(dir)); err != nil { // the kernel takes an empty directory in its place, os.Rename none
		return made, fmt.Errorf("put the restored folder in its place: %w", err)
	}
	return made, durablefile.SyncDir(filepath.Dir(filepath.Clean(dir)))
}

// lockDir takes the lock of a data directory, as a running member has it.
func lockDir(path string) (*os.File, error) {
	lock, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("%w: %s", store.ErrInUse, path)
	}
	return lock, nil
}
