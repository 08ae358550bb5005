package mount

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

const grownSize = 640 << 20

// backing is the file behind a loop device.
func backing(t testing.TB, d executor.Device) string {
	t.Helper()
	text, err := os.ReadFile("/sys/block/" + filepath.Base(d.Path) + "/loop/backing_file")
	require.NoError(t, err)
	return strings.TrimSpace(string(text))
}

// enlarge makes a device larger, attached or not.
func enlarge(t testing.TB, d *executor.Device, size int64) {
	t.Helper()
	require.NoError(t, os.Truncate(backing(t, *d), size))
	require.NoError(t, exec.Command("losetup", "-c", d.Path).Run())
	d.Size = size
}

// requireClean fails the test when the filesystem on an unmounted device is not whole.
func requireClean(t testing.TB, d executor.Device, fsType string) {
	t.Helper()
	check := exec.Command("e2fsck", "-f", "-n", d.Path)
	if fsType == "xfs" {
		check = exec.Command("xfs_repair", "-n", d.Path)
	}
	out, err := check.CombinedOutput()
	require.NoError(t, err, string(out))
}

// fillFiles writes a file that later is compared.
func fillFiles(t testing.TB, dir string) []byte {
	t.Helper()
	content := bytes.Repeat([]byte("holdfast "), 1<<18)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "data"), content, 0o600))
	return content
}

// requireContent mounts a filesystem that was filled, and checks its content.
func (h *testHost) requireContent(d executor.Device, content []byte) {
	h.t.Helper()
	got, err := os.ReadFile(h.mountAt(d, "ext4", "after") + "/data")
	require.NoError(h.t, err)
	require.True(h.t, bytes.Equal(content, got))
	h.unmountAll()
}

func (h *testHost) formatNew(fsType string) executor.Device {
	h.t.Helper()
	d := h.device(fsm.MinXFSSize)
	require.NoError(h.t, h.Format(h.t.Context(), d.Path, executor.Filesystem{Type: fsType, UUID: uuid.NewString()}, false))
	return d
}

func (h *testHost) mountAt(d executor.Device, fsType, name string) string {
	h.t.Helper()
	dir := h.mkdir(name)
	require.NoError(h.t, h.Mount(h.t.Context(), d, executor.MountOptions{Path: dir, FSType: fsType}))
	return dir
}

func (h *testHost) filesystemSize(d executor.Device, fsType string) int64 {
	h.t.Helper()
	size, err := h.FilesystemSize(h.t.Context(), d, fsType)
	require.NoError(h.t, err)
	return size
}

// CSI-NODE-NodeExpandVolume: offline.
func TestGrowAnUnmountedFilesystem(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			h := newHost(t)
			d := h.formatNew(fsType)
			dir := h.mountAt(d, fsType, "before")
			want := fillFiles(t, dir)
			require.NoError(t, h.Unmount(t.Context(), d, dir))
			require.EqualValues(t, fsm.MinXFSSize, h.filesystemSize(d, fsType))
			require.NoError(t, h.ExpandFilesystem(t.Context(), d, fsType, ""), "there is nothing to grow")
			enlarge(t, &d, grownSize)
			require.EqualValues(t, fsm.MinXFSSize, h.filesystemSize(d, fsType))
			for range 2 {
				require.NoError(t, h.ExpandFilesystem(t.Context(), d, fsType, ""))
				require.EqualValues(t, grownSize, h.filesystemSize(d, fsType))
				require.Empty(t, h.mounts(d))
			}
			requireClean(t, d, fsType)
			dir = h.mountAt(d, fsType, "after")
			got, err := os.ReadFile(dir + "/data")
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got))
			s, err := h.Stats(t.Context(), d, dir, false)
			require.NoError(t, err)
			require.Greater(t, s.Bytes.Total, int64(500<<20))
		})
	}
}

// CSI-NODE-NodeExpandVolume: online, under a writer.
func TestGrowAMountedXFS(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("xfs")
	dir := h.mountAt(d, "xfs", "staging")
	want := fillFiles(t, dir)
	open, err := os.Create(dir + "/open")
	require.NoError(t, err)
	defer open.Close()
	enlarge(t, &d, grownSize)
	for range 2 {
		require.NoError(t, h.ExpandFilesystem(t.Context(), d, "xfs", dir))
		require.EqualValues(t, grownSize, h.filesystemSize(d, "xfs"), "as the kernel says, not as the device")
	}
	require.NoError(t, errors.Join(unix.Fallocate(int(open.Fd()), 0, 0, 400<<20), open.Close()))
	got, err := os.ReadFile(dir + "/data")
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got))
	require.NoError(t, h.Unmount(t.Context(), d, dir))
	require.EqualValues(t, grownSize, h.filesystemSize(d, "xfs"))
	requireClean(t, d, "xfs")
}

func TestGrowAMountedExt4NeedsACapability(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("ext4")
	dir := h.mountAt(d, "ext4", "staging")
	require.NoError(t, h.ExpandFilesystem(t.Context(), d, "ext4", dir), "there is nothing to grow")
	enlarge(t, &d, grownSize)
	for range 2 {
		err := h.ExpandFilesystem(t.Context(), d, "ext4", dir)
		if canGrowExt4Online() {
			require.NoError(t, err)
			require.EqualValues(t, grownSize, h.filesystemSize(d, "ext4"))
			continue
		}
		requireRejected(t, fsm.Precondition, err)
		require.ErrorContains(t, err, "CAP_SYS_RESOURCE")
		require.EqualValues(t, fsm.MinXFSSize, h.filesystemSize(d, "ext4"))
	}
	require.NoError(t, h.Unmount(t.Context(), d, dir))
	require.NoError(t, h.ExpandFilesystem(t.Context(), d, "ext4", ""))
	require.EqualValues(t, grownSize, h.filesystemSize(d, "ext4"))
	requireClean(t, d, "ext4")
}

func TestGrowReportsErrors(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("xfs")
	requireRejected(t, fsm.Invalid, h.ExpandFilesystem(t.Context(), d, "btrfs", ""))
	requireRejected(t, fsm.Precondition, h.ExpandFilesystem(t.Context(), d, "xfs", h.mkdir("elsewhere")))
	requireRejected(t, fsm.Precondition, h.ExpandFilesystem(t.Context(), d, "ext4", ""))
	requireRejected(t, fsm.Invalid, h.ExpandFilesystem(t.Context(), d, "xfs", "/etc"))
	_, err := h.FilesystemSize(t.Context(), d, "ext4")
	requireRejected(t, fsm.Precondition, err)
	dir := h.mkdir("ro")
	require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: dir, FSType: "xfs", ReadOnly: true}))
	enlarge(t, &d, grownSize)
	requireRejected(t, fsm.Precondition, h.ExpandFilesystem(t.Context(), d, "xfs", dir))
}

// reloadAfterCrash is a copy of a synced device as it is now, with a dirty journal when it is mounted.
func (h *testHost) reloadAfterCrash(d executor.Device) executor.Device {
	h.t.Helper()
	c := h.device(d.Size)
	out, err := exec.Command("cp", "--sparse=auto", backing(h.t, d), backing(h.t, c)).CombinedOutput()
	require.NoError(h.t, err, string(out))
	return c
}

func TestACloneGetsAUUIDOfItsOwn(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		for name, clean := range map[string]bool{"clean": true, "cut while it was mounted": false} {
			t.Run(fsType+", "+name, func(t *testing.T) {
				h := newHost(t)
				d := h.formatNew(fsType)
				dir := h.mountAt(d, fsType, "source")
				want := fillFiles(t, dir)
				if clean {
					require.NoError(t, h.Unmount(t.Context(), d, dir))
				} else {
					syncAll(t, dir)
				}
				clone := h.reloadAfterCrash(d)
				if clean {
					h.mountAt(d, fsType, "source")
				}
				id := uuid.NewString()
				for range 2 {
					require.NoError(t, h.ChangeUUID(t.Context(), clone, executor.Filesystem{Type: fsType, UUID: id}))
					got, err := h.Probe(t.Context(), clone.Path, clone.Size)
					require.NoError(t, err)
					require.Equal(t, executor.Filesystem{Type: fsType, UUID: id}, got.Found)
					require.Empty(t, h.mounts(clone))
				}
				requireClean(t, clone, fsType)
				beside := h.mountAt(clone, fsType, "clone")
				got, err := os.ReadFile(beside + "/data")
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got))
				requireRejected(t, fsm.Busy, h.ChangeUUID(t.Context(), clone, executor.Filesystem{Type: fsType, UUID: uuid.NewString()}))
				require.NoError(t, h.Unmount(t.Context(), clone, beside))
				enlarge(t, &clone, grownSize)
				require.NoError(t, h.ExpandFilesystem(t.Context(), clone, fsType, ""))
				requireClean(t, clone, fsType)
			})
		}
	}
}

func syncAll(t testing.TB, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	require.NoError(t, err)
	require.NoError(t, errors.Join(unix.Syncfs(int(f.Fd())), f.Close()))
}

// xfs_db writes one superblock after the other; a crash leaves some of either UUID.
func TestAHalfWrittenUUIDIsWrittenAgain(t *testing.T) {
	const groups = 4
	for name, old := range map[string][]int64{
		"the first is written":      {1, 2, 3},
		"all but the last":          {3},
		"all but the first":         {0},
		"only the log was made new": {0, 1, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			d := h.formatNew("xfs")
			group := d.Size / groups
			before := superblocks(t, d, groups)
			want := executor.Filesystem{Type: "xfs", UUID: uuid.NewString()}
			require.NoError(t, h.ChangeUUID(t.Context(), d, want))
			for _, n := range old {
				write(t, d.Path, n*group, before[n])
			}
			done, err := xfsHasUUID(d.Path, uuid.MustParse(want.UUID))
			require.NoError(t, err)
			require.False(t, done)
			require.NoError(t, h.ChangeUUID(t.Context(), d, want))
			requireClean(t, d, "xfs")
			h.mountAt(d, "xfs", "staging")
		})
	}
}

// xfs_db makes the log anew before it writes the superblocks; a crash leaves a log
// that neither it nor the kernel can read.
func TestAUUIDWhoseLogWasHalfClearedIsWrittenAgain(t *testing.T) {
	const groups = 4
	for name, kept := range map[string]int64{"all zero": 0, "one record": 256 << 10, "half of it": 32 << 20} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			d := h.formatNew("xfs")
			dir := h.mountAt(d, "xfs", "source")
			data := fillFiles(t, dir)
			require.NoError(t, h.Unmount(t.Context(), d, dir))
			before := superblocks(t, d, groups)
			want := executor.Filesystem{Type: "xfs", UUID: uuid.NewString()}
			require.NoError(t, h.ChangeUUID(t.Context(), d, want))
			for n, b := range before {
				write(t, d.Path, int64(n)*d.Size/groups, b)
			}
			write(t, d.Path, xfsLogStart(before[0])+kept, make([]byte, 64<<20-kept))
			begun, err := xfsUUIDPartlyWritten(d.Path, uuid.MustParse(want.UUID))
			require.NoError(t, err)
			require.True(t, begun)
			for range 2 {
				require.NoError(t, h.ChangeUUID(t.Context(), d, want))
				requireClean(t, d, "xfs")
			}
			got, err := os.ReadFile(h.mountAt(d, "xfs", "staging") + "/data")
			require.NoError(t, err)
			require.True(t, bytes.Equal(data, got))
		})
	}
}

// superblocks are those of all groups.
func superblocks(t testing.TB, d executor.Device, groups int64) (all [][]byte) {
	t.Helper()
	f, err := os.Open(d.Path)
	require.NoError(t, err)
	defer f.Close()
	for n := range groups {
		b := make([]byte, 512)
		_, err := f.ReadAt(b, n*d.Size/groups)
		require.NoError(t, err)
		all = append(all, b)
	}
	return all
}

func TestChangeUUIDRefuses(t *testing.T) {
	h := newHost(t)
	d := h.formatNew("xfs")
	requireRejected(t, fsm.Invalid, h.ChangeUUID(t.Context(), d, executor.Filesystem{Type: "xfs", UUID: "x; rm"}))
	requireRejected(t, fsm.Invalid, h.ChangeUUID(t.Context(), d, executor.Filesystem{Type: "btrfs", UUID: uuid.NewString()}))
	require.Error(t, h.ChangeUUID(t.Context(), d, executor.Filesystem{Type: "ext4", UUID: uuid.NewString()}))
	before, err := h.Probe(t.Context(), d.Path, d.Size)
	require.NoError(t, err)
	require.Equal(t, "xfs", before.Found.Type)
}

// resize2fs is killed with the node process, at any moment.
func TestAKilledGrowthIsRepeated(t *testing.T) {
	h := newHost(t)
	content := bytes.Repeat([]byte("holdfast "), 1<<18)
	interrupted := 0
	for after := time.Millisecond; after < 14*time.Millisecond; after += 2 * time.Millisecond {
		d := h.formatNew("ext4")
		dir := h.mountAt(d, "ext4", "before")
		fillFiles(t, dir)
		require.NoError(t, h.Unmount(t.Context(), d, dir))
		enlarge(t, &d, grownSize)
		require.NoError(t, h.runFsck(t.Context(), d.Path, "-p"))
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_ = exec.CommandContext(ctx, "resize2fs", d.Path).Run()
		cancel()
		current, err := extSize(d.Path)
		require.NoError(t, err)
		if current.growthInterrupted {
			interrupted++
			require.Less(t, h.filesystemSize(d, "ext4"), int64(grownSize), "whatever the superblock says by now")
		}
		for range 2 {
			require.NoError(t, h.ExpandFilesystem(t.Context(), d, "ext4", ""))
			require.EqualValues(t, grownSize, h.filesystemSize(d, "ext4"))
		}
		requireClean(t, d, "ext4")
		h.requireContent(d, content)
	}
	t.Logf("%d of them were in the middle", interrupted)
}

// Another program holds the device for a moment, as one that looks for filesystems does: nothing is changed, and the
// next attempt succeeds.
func TestAFilesystemIsGrownWhenItsDeviceIsFree(t *testing.T) {
	for name, interrupted := range map[string]bool{"whole": false, "of an interrupted growth": true} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			d := h.formatNew("ext4")
			content := fillFiles(t, h.mountAt(d, "ext4", "before"))
			h.unmountAll()
			if interrupted { // e2fsck is the first that wants the device for itself
				superblockIn(t, d, withErrorMark(superblockIn(t, d, nil)))
			}
			enlarge(t, &d, grownSize)
			before := superblockIn(t, d, nil)
			other := hold(t, d)
			for range 2 {
				err := h.ExpandFilesystem(t.Context(), d, "ext4", "")
				var refused *fsm.Rejection
				require.Error(t, err)
				require.False(t, errors.As(err, &refused), "the caller is to try again: %v", err)
				var failed *run.Error
				require.Equal(t, interrupted, errors.As(err, &failed) && failed.Code == 8, "%v", err)
				require.Equal(t, before, superblockIn(t, d, nil))
			}
			require.NoError(t, other.Close())
			require.Eventually(t, func() bool { return h.ExpandFilesystem(t.Context(), d, "ext4", "") == nil }, time.Minute, 20*time.Millisecond)
			require.EqualValues(t, grownSize, h.filesystemSize(d, "ext4"))
			requireClean(t, d, "ext4")
			h.requireContent(d, content)
		})
	}
}

// hold opens a device exclusively, as soon as no other program of this machine does.
func hold(t *testing.T, d executor.Device) (f *os.File) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		f, err = os.OpenFile(d.Path, os.O_RDONLY|unix.O_EXCL, 0)
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	return f
}
