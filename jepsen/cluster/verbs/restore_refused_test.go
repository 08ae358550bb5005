package verbs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/foldertest"
	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
	"github.com/holdfast-storage/holdfast/raftnode/backup"
	"github.com/holdfast-storage/holdfast/raftnode/backup/backuptest"
)

// refusedRestores gives the command backups that are no good, and good ones for folders that are of another cluster. of is the
// data folder of a stopped controller of the backup's cluster, which founded it. In each case it is refused in one line, and nothing is changed.
func (f *fileVerbs) refusedRestores(path, of string) {
	f.t.Helper()
	whole, err := os.ReadFile(path)
	require.NoError(f.t, err)
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	dir := f.t.TempDir()
	founded, err := os.ReadFile(of + ".founded")
	require.NoError(f.t, err)
	require.NoError(f.t, os.WriteFile(dir+"/data.founded", founded, 0o600))
	foreign := foreignBackup(f.t)
	for _, tc := range []struct{ backup, data, why string }{
		{f.written("truncated", whole[:len(whole)-1]), dir + "/data", "it is truncated"},
		{f.written("flipped", flipped), dir + "/data", "its checksum is wrong"},
		{foreign, dir + "/data", "was founded here"},
		{foreign, of, "and a restore needs an empty data folder"},
		{path, of, "the data of member "},
	} {
		before := foldertest.Tree(f.t, filepath.Dir(tc.data))
		for range 2 {
			res := harness.Run(f.t.Context(), f.binary, "restore", "--data-dir", tc.data, "--backup", tc.backup, "--advertise", "127.0.0.1:9", "--yes")
			require.Equal(f.t, 1, res.Code, res.Stdout)
			require.Empty(f.t, res.Stdout)
			require.Contains(f.t, res.Stderr, tc.why)
			require.NotContains(f.t, res.Stderr, "\n")
			require.Equal(f.t, before, foldertest.Tree(f.t, filepath.Dir(tc.data)))
		}
	}
}

func (f *fileVerbs) written(name string, content []byte) string {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), name)
	require.NoError(f.t, os.WriteFile(path, content, 0o600))
	return path
}

func foreignBackup(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "foreign")
	require.NoError(t, backup.CreateFile(path, func(w io.Writer) error {
		_, err := backup.Take(t.Context(), backuptest.New(t, "another"), backup.Request{Member: "c1", Now: time.Now()}, w)
		return err
	}))
	return path
}
