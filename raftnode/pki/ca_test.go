package pki

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMakeCA(t *testing.T) {
	dir := newCA(t, "prod.example")
	before, err := os.ReadFile(filepath.Join(dir, caKey))
	require.NoError(t, err)
	t.Run("refuses to overwrite one", func(t *testing.T) {
		for range 2 {
			require.ErrorContains(t, MakeCA(dir, "prod.example"), "is there already")
		}
		after, err := os.ReadFile(filepath.Join(dir, caKey))
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
	t.Run("refuses a cluster name that is not one", func(t *testing.T) {
		for _, cluster := range []string{"", "Prod", "a/b", "a b", "a@b", "-a"} {
			require.ErrorContains(t, MakeCA(filepath.Join(t.TempDir(), "ca"), cluster), "cluster name")
		}
	})
	t.Run("refuses a folder that others can enter", func(t *testing.T) {
		open := filepath.Join(t.TempDir(), "open")
		require.NoError(t, os.Mkdir(open, 0o755))
		require.ErrorContains(t, MakeCA(open, "one"), "chmod 700 "+open)
	})
	t.Run("nothing is readable by others", func(t *testing.T) { requirePrivate(t, dir) })
}

func requirePrivate(t *testing.T, dir string) {
	t.Helper()
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), entry.Name())
	}
}

func TestIssue(t *testing.T) {
	ca := newCA(t, "one")
	out := filepath.Join(t.TempDir(), "out")
	t.Run("names the files after role and name, and again renews", func(t *testing.T) {
		for range 2 {
			files, err := Issue(ca, out, Identity{Role: Node, Name: "host-1.example"}, time.Hour)
			require.NoError(t, err)
			require.Equal(t, FilesIn(out, Node, "host-1.example"), files)
			loaded, err := Load(files)
			require.NoError(t, err)
			require.Equal(t, Identity{Cluster: "one", Role: Node, Name: "host-1.example"}, loaded.Identity())
			require.Equal(t, "node/host-1.example", loaded.Identity().Actor())
		}
		requirePrivate(t, out)
	})
	t.Run("a bundle of CAs stays one while a CA is replaced", func(t *testing.T) {
		next := newCA(t, "one")
		for range 2 {
			files, err := Issue(next, out, Identity{Role: Node, Name: "n2"}, time.Hour)
			require.NoError(t, err)
			content, err := os.ReadFile(files.CA)
			require.NoError(t, err)
			require.Equal(t, 2, strings.Count(string(content), "BEGIN CERTIFICATE"))
			for _, name := range []string{"n2", "host-1.example"} {
				_, err = Load(FilesIn(out, Node, name))
				require.NoError(t, err, "certificates of both CAs are good")
			}
		}
	})
	t.Run("the CA's key stays where it is", func(t *testing.T) {
		require.NoFileExists(t, filepath.Join(out, caKey))
	})
	for name, tc := range map[string]struct {
		id       Identity
		validity time.Duration
		want     string
	}{
		"another cluster":     {Identity{Cluster: "two", Role: Node, Name: "n1"}, time.Hour, "it is for cluster"},
		"no validity":         {Identity{Role: Node, Name: "n1"}, 0, "validity"},
		"a role nobody has":   {Identity{Role: "king", Name: "n1"}, time.Hour, "role"},
		"a path for a name":   {Identity{Role: Node, Name: "../n1"}, time.Hour, "name"},
		"no name":             {Identity{Role: Node}, time.Hour, "name"},
		"a name with a slash": {Identity{Role: Node, Name: "a/b"}, time.Hour, "name"},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			for range 2 {
				_, err := Issue(ca, out, tc.id, tc.validity)
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
	t.Run("refuses a CA that others can read", func(t *testing.T) {
		open := newCA(t, "one")
		require.NoError(t, os.Chmod(filepath.Join(open, caKey), 0o644))
		_, err := Issue(open, out, Identity{Role: Node, Name: "n1"}, time.Hour)
		require.ErrorContains(t, err, "chmod 600")
	})
}
