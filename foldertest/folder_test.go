package foldertest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each change of a folder is found, once: what only touches modes or times by Tree alone.
func TestChangesOfAFolderAreFound(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(dir string) error
		want   string // of Changes; empty: only Tree shows it
	}{
		"a file is written":    {func(dir string) error { return os.WriteFile(dir+"/a/file", []byte("other"), 0o600) }, "/a/file was changed"},
		"a file is made":       {func(dir string) error { return os.WriteFile(dir+"/a/new", nil, 0o600) }, "/a/new is new"},
		"a folder is made":     {func(dir string) error { return os.Mkdir(dir+"/b", 0o700) }, "/b is new"},
		"a file is removed":    {func(dir string) error { return os.Remove(dir + "/a/file") }, "/a/file is gone"},
		"a mode is changed":    {func(dir string) error { return os.Chmod(dir+"/a/file", 0o400) }, ""},
		"the same is written":  {func(dir string) error { return os.Chtimes(dir+"/a/file", time.Time{}, time.Unix(2, 0)) }, ""},
		"a folder is modified": {func(dir string) error { return os.Chtimes(dir+"/a", time.Time{}, time.Unix(2, 0)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "a"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "file"), []byte("text!"), 0o600))
			files, tree := Files(t, dir), Tree(t, dir)
			for range 2 {
				require.Empty(t, Changes(files, Files(t, dir)))
				require.Equal(t, tree, Tree(t, dir))
			}
			require.NoError(t, tc.change(dir))
			var want []string
			if tc.want != "" {
				want = []string{dir + tc.want}
			}
			require.Equal(t, want, Changes(files, Files(t, dir)))
			require.NotEqual(t, tree, Tree(t, dir))
		})
	}
}
