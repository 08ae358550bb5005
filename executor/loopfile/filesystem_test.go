package loopfile

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/executor/run"
)

// ownFilesystem creates a directory's own filesystem, unmounted when the test ends.
func ownFilesystem(t *testing.T, dir string) *Filesystem {
	t.Helper()
	needLoops(t)
	f, err := OpenFilesystem(t.Context(), dir, run.New(), true)
	require.NoError(t, err)
	if f == nil {
		t.Skip("the tests' folder shares blocks")
	}
	t.Cleanup(func() {
		_ = f.Close()
		for mounted, _ := mountinfo.Mounted(dir); mounted; mounted, _ = mountinfo.Mounted(dir) {
			require.NoError(t, unix.Unmount(dir, 0))
		}
	})
	return f
}

func TestANewPoolGetsAFilesystemThatShares(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pool")
	f := ownFilesystem(t, dir)
	_, err := Init(dir)
	require.NoError(t, err)
	p, err := Open(Config{Dir: dir, OwnFilesystem: f})
	require.NoError(t, err)
	require.True(t, p.SharesBlocks())
	info, err := f.image.Stat()
	require.NoError(t, err)
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.image.Fd()), &st))
	require.GreaterOrEqual(t, st.Blocks*512, info.Size(), "allocated: nothing below can fail it")
	id := backendtest.NewID()
	require.NoError(t, p.Create(t.Context(), id, 64<<20))
	require.FileExists(t, filepath.Join(dir, volumesDir, string(id)+".img"))
	items, err := p.Inventory(t.Context())
	require.NoError(t, err)
	require.Len(t, items, 1, "its own device is no orphan")
	for tries := 1; ; tries++ {
		now, below := availableBytes(t, dir), availableBytes(t, filepath.Dir(dir))
		free := p.Facts(t.Context()).Free
		require.Greater(t, free, now, "it may grow")
		if free <= now+below {
			return
		}
		require.Less(t, tries, 100, "more than there is") // others may free blocks below meanwhile
	}
}

func availableBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(dir, &st))
	return int64(st.Bavail) * st.Bsize
}

// S12: after a restart it is found mounted, after a boot it is mounted again, and its
// folder without it is no pool.
func TestAPoolsOwnFilesystemIsFoundAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pool")
	ownFilesystem(t, dir)
	known, err := Init(dir)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, volumesDir, "kept"), []byte("x"), 0o600))
	for _, boot := range []bool{false, true, false} {
		if boot {
			require.NoError(t, unix.Unmount(dir, 0))
			p, err := Open(Config{Dir: dir, KnownID: known})
			require.NoError(t, err)
			require.True(t, p.Facts(t.Context()).Absent)
			require.FileExists(t, filepath.Join(dir, FilesystemImage))
		}
		again, err := OpenFilesystem(t.Context(), dir, run.New(), false)
		require.NoError(t, err)
		require.NotNil(t, again)
		require.FileExists(t, filepath.Join(dir, volumesDir, "kept"))
		require.NoError(t, again.growTo(sizeOfImage(t, again)), "of its own size: nothing")
		require.NoError(t, again.Close())
	}
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(dir))
	require.NoError(t, err)
	require.Len(t, mounts, 1, "mounted once")
}

func sizeOfImage(t *testing.T, f *Filesystem) int64 {
	t.Helper()
	info, err := f.image.Stat()
	require.NoError(t, err)
	return info.Size()
}

// What is in a folder is never hidden by a mount, and a pool that exists is not converted.
func TestNoFolderWithContentIsMountedOver(t *testing.T) {
	needLoops(t)
	for name, fill := range map[string]func(dir string) error{
		"a pool of files":   func(dir string) error { _, err := Init(dir); return err },
		"somebody's folder": func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), nil, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, fill(dir))
			for range 2 {
				f, err := OpenFilesystem(t.Context(), dir, run.New(), true)
				require.NoError(t, err)
				require.Nil(t, f)
				require.NoFileExists(t, filepath.Join(dir, FilesystemImage))
			}
		})
	}
	f, err := OpenFilesystem(t.Context(), filepath.Join(t.TempDir(), "none"), run.New(), false)
	require.NoError(t, err)
	require.Nil(t, f, "it is only created on request")
}

func TestAPoolsOwnFilesystemGrows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pool")
	f := ownFilesystem(t, dir)
	before := sizeOfImage(t, f)
	require.NoError(t, f.Grow())
	require.Equal(t, before, sizeOfImage(t, f), "there is room")
	full, err := os.Create(filepath.Join(dir, "full"))
	require.NoError(t, err)
	defer full.Close()
	require.NoError(t, unix.Fallocate(int(full.Fd()), 0, 0, before-minFreeBytes))
	require.NoError(t, f.Grow())
	require.GreaterOrEqual(t, sizeOfImage(t, f), before+growStep)
	require.GreaterOrEqual(t, availableBytes(t, dir), int64(minFreeBytes))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.KeepGrown(ctx, func(err error) { t.Error(err) })
}

// failingRunner is a host without mkfs.xfs, or one where it makes no filesystem.
type failingRunner struct{ err error }

func (f failingRunner) Run(context.Context, run.Command) ([]byte, error) { return nil, f.err }

// A new pool whose own filesystem cannot be created does without it, and nothing is left of the attempt.
func TestAPoolWithoutItsOwnFilesystemIsAPoolAllTheSame(t *testing.T) {
	needLoops(t)
	for name, err := range map[string]error{"mkfs.xfs is missing": errors.New("it is not installed"), "there is nothing to mount": nil} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "pool")
			for range 2 {
				f, err := OpenFilesystem(t.Context(), dir, failingRunner{err}, true)
				if f == nil && err == nil {
					t.Skip("the tests' folder shares blocks")
				}
				var filesystemErr *FilesystemError
				require.ErrorAs(t, err, &filesystemErr)
				require.Nil(t, f)
				left, err := os.ReadDir(dir)
				require.NoError(t, err)
				require.Empty(t, left)
			}
			_, err := Init(dir)
			require.NoError(t, err)
		})
	}
}
