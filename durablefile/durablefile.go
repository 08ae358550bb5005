// Package durablefile replaces and removes files so that a crash, of the process or of the machine, leaves the old content
// or the new one and never a part, and so that what was said to be done is still done after it.
package durablefile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write makes content what is at path, with the mode whatever the umask is. A process that is killed may leave a file beside
// it whose name begins with a dot and ends in ".tmp".
func Write(path string, content []byte, mode fs.FileMode) error {
	return WriteWith(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// WriteWith makes what fill writes the content at path. Where fill fails, the path is as it was.
func WriteWith(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	if err = fill(temp); err == nil {
		err = errors.Join(setMode(temp, mode), temp.Sync())
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return SyncDir(filepath.Dir(path))
}

// madeMode is the mode of os.CreateTemp's files.
const madeMode fs.FileMode = 0o600

// setMode changes nothing where nothing is to be changed: some network filesystems have no modes.
func setMode(file *os.File, mode fs.FileMode) error {
	if mode == madeMode {
		return nil
	}
	return file.Chmod(mode)
}

// Remove removes a file. One that is not there is no error, and neither is a directory that is not there: whoever removed it
// may have died before it was durable.
func Remove(path string) error {
	err := os.Remove(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if synced := SyncDir(filepath.Dir(path)); err == nil || !errors.Is(synced, fs.ErrNotExist) {
		return synced
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
