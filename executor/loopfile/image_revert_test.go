package loopfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// filledImage is an image without a hole, a snapshot of it, and its path.
func filledImage(t *testing.T, p *Pool, size int64) (id fsm.VolumeID, snapshot fsm.SnapshotID, path string) {
	t.Helper()
	id, snapshot = backendtest.NewID(), backendtest.NewSnapshotID()
	require.NoError(t, p.Create(t.Context(), id, size))
	path = filepath.Join(p.dir, image(volumesDir, id))
	overwriteFile(t, path, size)
	require.NoError(t, p.TakeSnapshot(t.Context(), id, snapshot, nil))
	return id, snapshot, path
}

func overwriteFile(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(incompressible(int(size)), 0)
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
}

func TestARevertOnASharingPoolTakesNoSpace(t *testing.T) {
	p := openPoolIn(t, filepath.Join(supportsReflink(t), "pool"))
	id, snapshot, path := filledImage(t, p, 128<<20)
	before := p.Facts(t.Context()).Free
	for range 16 { // 16 copies would not fit
		require.NoError(t, p.Revert(t.Context(), id, snapshot))
	}
	require.Less(t, before-p.Facts(t.Context()).Free, int64(16<<20))
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode(), "as Create makes it")
}

func TestARevertWithoutRoomLeavesTheOldImage(t *testing.T) {
	needLoops(t)
	at := t.TempDir()
	require.NoError(t, unix.Mount("none", at, "tmpfs", 0, "size=20m"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(at, 0)) })
	p := openPoolIn(t, filepath.Join(at, "pool"))
	id, snapshot, path := filledImage(t, p, 8<<20)
	overwriteFile(t, path, 4096)
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	for range 2 {
		require.ErrorIs(t, p.Revert(t.Context(), id, snapshot), unix.ENOSPC)
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, string(want) == string(have), "it is as it was")
		d, err := p.Observe(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, executor.Device{Exists: true, Size: 8 << 20}, d, "and nothing is left beside it")
	}
}

// A loop device over an image is in use whoever made it.
func TestAnImageWithALoopDeviceOfAnotherProgramIsNotReverted(t *testing.T) {
	p, _ := newPool(t)
	id, snapshot, _ := filledImage(t, p, 1<<20)
	_, err := reopen(p, p.dir).Activate(t.Context(), id, true)
	require.NoError(t, err)
	for _, err := range []error{p.Revert(t.Context(), id, snapshot), p.Shrink(t.Context(), id, 4096)} {
		var refused *fsm.Rejection
		require.ErrorAs(t, err, &refused)
		require.Equal(t, fsm.InUse, refused.Reason)
	}
}
