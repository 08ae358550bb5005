package target

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-storage/holdfast/raftnode/backup"
)

// Folder is a folder; a mount of another machine's disk, as a rule. It must be there: a mount that is missing
// must not become a folder on the disk that is backed up.
type Folder string

// String is the path.
func (f Folder) String() string { return string(f) }

func (f Folder) path(name string) string { return filepath.Join(string(f), filepath.Base(name)) }

// Put implements Target.
func (f Folder) Put(ctx context.Context, name string, fill func(io.Writer) error) error {
	return backup.CreateFile(f.path(name), func(w io.Writer) error {
		if err := fill(w); err != nil {
			return err
		}
		return ctx.Err()
	})
}

// Names implements Target.
func (f Folder) Names(context.Context) (names []string, err error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, fmt.Errorf("list the backups: %w", err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Open implements Target.
func (f Folder) Open(_ context.Context, name string) (io.ReadCloser, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, fmt.Errorf("read a backup: %w", err)
	}
	return file, nil
}

// Remove implements Target.
func (f Folder) Remove(_ context.Context, name string) error {
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove a backup: %w", err)
	}
	return nil
}
