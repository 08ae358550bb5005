package luks

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// witness is another name of a file, under which its blocks can be looked at later.
func witness(t *testing.T, file string) (zero func() bool) {
	t.Helper()
	other := filepath.Join(t.TempDir(), "witness")
	require.NoError(t, os.Link(file, other))
	return func() bool {
		content, err := os.ReadFile(other)
		require.NoError(t, err)
		for _, b := range content {
			if b != 0 {
				return false
			}
		}
		return len(content) > 0
	}
}

// S65: neither the backup that was replaced nor one that was removed can be read from the disk afterwards.
func TestS65_ABackupIsOverwritten(t *testing.T) {
	tool, _ := newTool(t)
	image, file := newImage(t), filepath.Join(t.TempDir(), "header")
	require.NoError(t, tool.Format(t.Context(), image, uuid, key("one")))
	require.NoError(t, tool.BackUpHeader(t.Context(), image, file))
	first := witness(t, file)
	require.NoError(t, tool.BackUpHeader(t.Context(), image, file))
	require.True(t, first())
	second := witness(t, file)
	require.False(t, second())
	for _, left := range []string{file + newSuffix, file + oldSuffix} {
		require.NoError(t, os.WriteFile(left, []byte("left by a crash"), 0o400))
	}
	for range 2 {
		require.NoError(t, tool.RemoveBackup(t.Context(), file))
	}
	require.True(t, second())
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// S65: what a crash left of a replacement is overwritten by the next one, and a backup that has its second name only is not.
func TestS65_ACrashWhileABackupIsReplaced(t *testing.T) {
	tool, _ := newTool(t)
	image, file := newImage(t), filepath.Join(t.TempDir(), "header")
	require.NoError(t, tool.Format(t.Context(), image, uuid, key("one")))
	require.NoError(t, tool.BackUpHeader(t.Context(), image, file))
	used := witness(t, file)
	require.NoError(t, os.Link(file, file+oldSuffix), "killed before the new one took its place")
	require.NoError(t, tool.overwriteReplaced(file))
	require.False(t, used(), "it is the only backup there is")
	require.NoFileExists(t, file+oldSuffix)
	require.NoError(t, os.Rename(file, file+oldSuffix), "killed after that")
	require.NoError(t, os.WriteFile(file, []byte("the new one"), 0o600))
	require.NoError(t, tool.overwriteReplaced(file))
	require.True(t, used())
	require.NoFileExists(t, file+oldSuffix)
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "the new one", string(content))
}
