package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"filippo.io/age"
)

// CreateFile writes a file beside its name, makes it durable and only then gives it the name. One that fails or is
// interrupted leaves nothing under the name. The file is its owner's alone.
func CreateFile(path string, fill func(io.Writer) error) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.part") // 0600
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err = fill(temp); err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// CheckFile is Check for a file that may be encrypted.
func CheckFile(path string, identities []age.Identity) (Header, error) {
	f := Files{Identities: identities}
	return f.check(path)
}

// withFile opens and decrypts a file. Its errors name the file.
func withFile(path string, identities []age.Identity, watch io.Writer, fn func(io.Reader) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	defer func() { _ = f.Close() }()
	var file io.Reader = f
	if watch != nil {
		file = io.TeeReader(f, watch)
	}
	r, err := Decrypt(file, identities)
	if err == nil {
		err = fn(r)
	}
	if err != nil {
		return fmt.Errorf("read the backup %s: %w", path, err)
	}
	return nil
}
