package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatDiffersIsNamedAndWritten(t *testing.T) {
	generated := map[string][]byte{"a/same.pb.go": []byte("same"), "a/changed.pb.go": []byte("new"), "a/missing.pb.go": []byte("new")}
	root := t.TempDir()
	put(t, root, map[string]string{
		"a/same.pb.go": "same", "a/changed.pb.go": "old", "a/leftover.pb.go": "its .proto file is gone",
		"a/hand.go": "", ".cache/elsewhere.pb.go": "", "a/testdata/captured.pb.go": "",
	})
	stale, err := differing(root, generated)
	require.NoError(t, err)
	require.Equal(t, []string{"a/changed.pb.go", "a/leftover.pb.go", "a/missing.pb.go"}, stale)

	require.NoError(t, write(root, stale, generated))
	stale, err = differing(root, generated)
	require.NoError(t, err)
	require.Empty(t, stale)
	require.NoFileExists(t, filepath.Join(root, "a/leftover.pb.go"))
	require.FileExists(t, filepath.Join(root, "a/hand.go"))
	require.FileExists(t, filepath.Join(root, ".cache/elsewhere.pb.go"))
}

func TestEverySourceIsCompiledBehindItsImports(t *testing.T) {
	root := t.TempDir()
	put(t, root, map[string]string{
		"a/user.proto": `syntax = "proto3"; import "b/used.proto"; option go_package = "` + module + `/a"; message User { b.Used used = 1; }`,
		"b/used.proto": `syntax = "proto3"; package b; option go_package = "` + module + `/b"; message Used {}`,
	})
	sources, err := find(root, ".proto")
	require.NoError(t, err)
	request, err := compile(t.Context(), root, sources)
	require.NoError(t, err)
	require.Equal(t, []string{"a/user.proto", "b/used.proto"}, request.GetFileToGenerate())
	require.Equal(t, "b/used.proto", request.GetProtoFile()[0].GetName())
	require.Equal(t, "a/user.proto", request.GetProtoFile()[1].GetName())
}

func put(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, content := range files {
		file := filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
	}
}
