package durablefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func requireFile(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, content, string(got))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, mode, info.Mode())
}

func TestAFileIsReplacedWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, Write(path, []byte("old"), 0o600))
	require.NoError(t, Write(path, []byte("new"), 0o644))
	requireFile(t, path, "new", 0o644)
	old := unix.Umask(0o077)
	defer unix.Umask(old)
	require.NoError(t, Write(path, []byte("new"), 0o640))
	requireFile(t, path, "new", 0o640)
	requireOnly(t, dir, "file")
}

func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := []string{}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	require.ElementsMatch(t, names, found)
}

// What fails half way leaves the old content, and nothing beside it.
func TestAFileThatCannotBeWrittenIsAsItWas(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, Write(path, []byte("old"), 0o600))
	full := errors.New("no space left on device")
	require.ErrorIs(t, WriteWith(path, 0o600, func(w io.Writer) error {
		_, err := w.Write([]byte("half of the new"))
		return errors.Join(err, full)
	}), full)
	requireFile(t, path, "old", 0o600)
	folder := filepath.Join(dir, "folder")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.Error(t, Write(folder, []byte("new"), 0o600))
	require.DirExists(t, folder)
	require.ErrorIs(t, Write(filepath.Join(dir, "none", "file"), nil, 0o600), os.ErrNotExist)
	requireOnly(t, dir, "file", "folder")
}

func TestAFileIsRemovedOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, Write(path, nil, 0o600))
	for range 2 {
		require.NoError(t, Remove(path))
	}
	require.NoError(t, Remove(filepath.Join(dir, "none", "file")))
	requireOnly(t, dir)
	require.NoError(t, os.MkdirAll(filepath.Join(path, "below"), 0o700))
	require.Error(t, Remove(path))
	require.ErrorIs(t, SyncDir(filepath.Join(dir, "none")), os.ErrNotExist)
}
