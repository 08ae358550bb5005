package backup

import (
	"fmt"
	"io"
	"os"

	"filippo.io/age"

	"github.com/holdfast-storage/holdfast/durablefile"
)

// CreateFile makes a file durable and only then gives it its name. One that fails or is interrupted leaves nothing under the
// name. The file is its owner's alone.
func CreateFile(path string, fill func(io.Writer) error) error {
	if err := durablefile.WriteWith(path, 0o600, fill); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
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
