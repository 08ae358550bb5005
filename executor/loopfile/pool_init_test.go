package loopfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestS12_AFolderBecomesAPoolOnlyWhenItIsNewAndEmpty(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pool")
	id, err := Init(dir)
	require.NoError(t, err)
	again, err := Init(dir)
	require.NoError(t, err)
	require.Equal(t, id, again, "asked twice")

	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "precious"), nil, 0o600))
	_, err = Init(full)
	require.ErrorContains(t, err, "it holds precious")

	_, err = Open(Config{Dir: t.TempDir()})
	require.ErrorContains(t, err, "has no id")
}

func TestS12_AFolderBecomesAPoolWhereverThatWasKilled(t *testing.T) {
	for _, left := range []string{".holdfast-pool.new", ".holdfast-try.from", ".holdfast-try.to", ".holdfast-pool.xfs.new"} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, left), []byte("hp-"), 0o600))
		id, err := Init(dir)
		require.NoError(t, err, left)
		again, err := Init(dir)
		require.NoError(t, err)
		require.Equal(t, id, again)

		folder := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(folder, left), 0o700))
		_, err = Init(folder)
		require.ErrorContains(t, err, "it holds "+left)
	}
}

// An image that was never finished takes no room of the pool. One that was is somebody's filesystem, which is not mounted.
func TestS12_AnImageOfItsOwnIsNoEmptyFolder(t *testing.T) {
	dir := t.TempDir()
	unfinished, finished := filepath.Join(dir, FilesystemImage+".new"), filepath.Join(dir, FilesystemImage)
	require.NoError(t, os.WriteFile(unfinished, []byte("half"), 0o600))
	require.NoError(t, os.WriteFile(finished, []byte("whole"), 0o600))
	for range 2 {
		_, err := Init(dir)
		require.ErrorContains(t, err, "it holds "+FilesystemImage)
		require.FileExists(t, finished)
	}
	require.NoError(t, os.Remove(finished))
	_, err := Init(dir)
	require.NoError(t, err)
	require.NoFileExists(t, unfinished)
}

// S12: what cannot be looked into may hold the volumes of a pool.
func TestS12_WhatCannotBeReadIsNotEmpty(t *testing.T) {
	other := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(other, volumesDir), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(other, volumesDir, "hf-1.img"), []byte("data"), 0o600))
	for name, fill := range map[string]func(path string) error{
		"a file":                     func(path string) error { return os.WriteFile(path, []byte("data"), 0o600) },
		"a link to another pool's":   func(path string) error { return os.Symlink(filepath.Join(other, volumesDir), path) },
		"a link to what is not here": func(path string) error { return os.Symlink("elsewhere", path) },
		"a pipe":                     func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		for _, folder := range []string{volumesDir, snapshotsDir, tmpDir, "lost+found"} {
			dir := t.TempDir()
			require.NoError(t, fill(filepath.Join(dir, folder)))
			for range 2 {
				_, err := Init(dir)
				require.ErrorContains(t, err, "it holds "+folder, name)
				require.NoFileExists(t, filepath.Join(dir, idFile))
			}
		}
	}
}

func TestS12_AnotherPoolAtThePathIsAbsent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pool")
	id, err := Init(dir)
	require.NoError(t, err)
	p, err := Open(Config{Dir: dir, KnownID: "hp-" + fsm.PoolID(string(backendtest.NewID()[3:]))})
	require.NoError(t, err)
	require.Contains(t, p.Facts(t.Context()).Detail, string(id))
	require.Error(t, p.Create(t.Context(), backendtest.NewID(), 1<<20))

	p, err = Open(Config{Dir: dir, KnownID: id})
	require.NoError(t, err)
	require.False(t, p.Facts(t.Context()).Absent)
	require.NoError(t, os.Rename(dir, dir+".away"))
	require.NoError(t, os.CopyFS(dir, os.DirFS(dir+".away")))
	require.Contains(t, p.Facts(t.Context()).Detail, "another one than at the start", "a copy with the same id")
}
