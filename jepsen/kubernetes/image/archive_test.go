package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// contents are the files of a tar by name; of a link where it leads.
func contents(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	all := map[string]string{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		all[h.Name] = string(content) + h.Linkname
	}
}

func TestAnArchiveNamesItsPartsByTheirSums(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	require.NoError(t, os.WriteFile(program, []byte("#!"), 0o755))
	to := filepath.Join(dir, "image.tar")
	require.NoError(t, Write(to, Image{
		Names: []string{"example.org/a:1"}, Entrypoint: []string{"/usr/bin/program"},
		Files: []File{{At: "/usr/bin/program", From: program}, {At: "/usr/bin/other", Link: "program"}},
	}))
	archive, err := os.ReadFile(to)
	require.NoError(t, err)
	parts := contents(t, archive)

	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	require.NoError(t, json.Unmarshal([]byte(parts["manifest.json"]), &manifest))
	require.Len(t, manifest, 1)
	require.Equal(t, []string{"example.org/a:1"}, manifest[0].RepoTags)
	require.Equal(t, manifest[0].Config, hexOf([]byte(parts[manifest[0].Config]))+".json")
	layer := parts[manifest[0].Layers[0]]
	require.Contains(t, parts[manifest[0].Config], "sha256:"+hexOf([]byte(layer)))
	require.Equal(t, map[string]string{"usr/": "", "usr/bin/": "", "usr/bin/program": "#!", "usr/bin/other": "program"}, contents(t, []byte(layer)))
}

func TestAnImageWithoutItsProgramIsRefused(t *testing.T) {
	err := Write(filepath.Join(t.TempDir(), "image.tar"), Program("example.org/a:1", "/nowhere/program", "/program"))
	require.ErrorContains(t, err, "example.org/a:1")
}
