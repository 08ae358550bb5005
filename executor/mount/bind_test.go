package mount

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// S122, CSI-NODE-NodePublishVolume-02, CSI-NODE-NodeUnpublishVolume-03.
func TestBindAFilesystemTenTimesIsOneMount(t *testing.T) {
	h := newHost(t)
	d, staging := h.stageNew("ext4")
	target := filepath.Join(h.mkdir("pod"), "target")
	for range 10 {
		require.NoError(t, h.Bind(t.Context(), d, executor.BindOptions{StagingPath: staging, Path: target, FSType: "ext4"}))
	}
	require.ElementsMatch(t, []executor.Mount{{Path: staging}, {Path: target}}, h.mounts(d))
	require.NoError(t, os.WriteFile(filepath.Join(target, "data"), []byte("kept"), 0o600))
	require.FileExists(t, filepath.Join(staging, "data"))
	requireRejected(t, fsm.Precondition, h.RemoveTarget(t.Context(), target))
	for range 2 {
		require.NoError(t, h.Unmount(t.Context(), d, target))
		require.NoError(t, h.RemoveTarget(t.Context(), target))
		require.NoDirExists(t, target)
	}
	require.FileExists(t, filepath.Join(staging, "data"))
}

func TestAReadOnlyTargetBesideAWritableOne(t *testing.T) {
	h := newHost(t)
	d, staging := h.stageNew("ext4")
	pod := h.mkdir("pod")
	ro := executor.BindOptions{StagingPath: staging, Path: pod + "/ro", ReadOnly: true, FSType: "ext4"}
	rw := executor.BindOptions{StagingPath: staging, Path: pod + "/rw", FSType: "ext4", Flags: []string{"noatime"}}
	for range 2 {
		require.NoError(t, h.Bind(t.Context(), d, ro))
		require.NoError(t, h.Bind(t.Context(), d, rw))
	}
	require.ErrorIs(t, os.WriteFile(pod+"/ro/x", nil, 0o600), unix.EROFS)
	require.NoError(t, os.WriteFile(pod+"/rw/x", nil, 0o600))
	ro.ReadOnly = false
	requireRejected(t, fsm.Incompatible, h.Bind(t.Context(), d, ro))
	require.NoError(t, h.Unmount(t.Context(), d, pod+"/ro"))
	require.Len(t, h.mounts(d), 2, "the other target is not touched")
}

func TestBindNeedsTheVolumeStagedThere(t *testing.T) {
	h := newHost(t)
	d, staging := h.stageNew("ext4")
	pod := h.mkdir("pod")
	for _, elsewhere := range []string{h.mkdir("other"), h.dir + "/none", ""} {
		require.Error(t, h.Bind(t.Context(), d, executor.BindOptions{StagingPath: elsewhere, Path: pod + "/target", FSType: "ext4"}))
	}
	require.NoDirExists(t, pod+"/target")
	requireRejected(t, fsm.Precondition, h.Bind(t.Context(), d, executor.BindOptions{StagingPath: staging, Path: h.dir + "/no/parent", FSType: "ext4"}))
}

func TestBindARawDevice(t *testing.T) {
	h := newHost(t)
	d := h.device(testSize)
	target := filepath.Join(h.mkdir("pod"), "disk")
	for range 10 {
		require.NoError(t, h.Bind(t.Context(), d, executor.BindOptions{Path: target, DeviceNode: true}))
	}
	require.Equal(t, []executor.Mount{{Path: target, DeviceNode: true}}, h.mounts(d))
	write(t, target, 0, []byte("raw"))
	require.NoError(t, h.Unmount(t.Context(), d, target))
	for range 2 {
		require.NoError(t, h.RemoveTarget(t.Context(), target))
		require.NoFileExists(t, target)
	}
}

func TestARawDeviceIsReadOnlyAtAllTargetsOrAtNone(t *testing.T) {
	h := newHost(t)
	d := h.device(testSize)
	pod := h.mkdir("pod")
	require.NoError(t, h.Bind(t.Context(), d, executor.BindOptions{Path: pod + "/ro", DeviceNode: true, ReadOnly: true}))
	f, err := os.OpenFile(pod+"/ro", os.O_RDWR, 0)
	if err == nil {
		_, err = f.Write([]byte("x"))
		f.Close()
	}
	require.ErrorIs(t, err, os.ErrPermission, "the device itself refuses writes")
	requireRejected(t, fsm.Precondition, h.Bind(t.Context(), d, executor.BindOptions{Path: pod + "/rw", DeviceNode: true}))
	require.NoError(t, h.Unmount(t.Context(), d, pod+"/ro"))
	require.NoError(t, h.Bind(t.Context(), d, executor.BindOptions{Path: pod + "/rw", DeviceNode: true}))
	write(t, pod+"/rw", 0, []byte("x"))
	requireRejected(t, fsm.Precondition, h.Bind(t.Context(), d, executor.BindOptions{Path: pod + "/ro", DeviceNode: true, ReadOnly: true}))
}

func TestBindRefusesAnOccupiedTarget(t *testing.T) {
	h := newHost(t)
	d := h.device(testSize)
	dir := h.mkdir("pod/dir")
	requireRejected(t, fsm.Precondition, h.Bind(t.Context(), d, executor.BindOptions{Path: dir, DeviceNode: true}))
	require.NoError(t, os.Symlink("/etc/passwd", h.dir+"/pod/link"))
	require.Error(t, h.Bind(t.Context(), d, executor.BindOptions{Path: h.dir + "/pod/link", DeviceNode: true}))
	require.Empty(t, h.mounts(d))
}

// S123, CSI-NODE-NodeUnpublishVolume-11.
func TestRemoveTargetNeverRemovesData(t *testing.T) {
	h := newHost(t)
	full := h.mkdir("full")
	require.NoError(t, os.WriteFile(full+"/data", []byte("x"), 0o600))
	require.NoError(t, os.Symlink(full, h.dir+"/link"))
	require.NoError(t, os.Mkdir(full+"/sub", 0o755))
	bound := h.mkdir("bound")
	require.NoError(t, unix.Mount(full, bound, "", unix.MS_BIND, ""))
	for path, want := range map[string]fsm.Reason{
		full:              fsm.Precondition,
		full + "/data":    fsm.Precondition,
		h.dir + "/link":   fsm.Precondition,
		h.dir + "/link/d": fsm.Invalid,
		bound:             fsm.Busy,
		"/etc":            fsm.Invalid,
	} {
		for range 2 {
			requireRejected(t, want, h.RemoveTarget(t.Context(), path))
		}
	}
	require.FileExists(t, full+"/data")
	require.NoError(t, h.RemoveTarget(t.Context(), h.dir+"/none"))
	require.NoError(t, h.RemoveTarget(t.Context(), h.dir+"/no/parent"))
}

func TestStats(t *testing.T) {
	h := newHost(t)
	d, staging := h.stageNew("ext4")
	s, err := h.Stats(t.Context(), d, staging, false)
	require.NoError(t, err)
	require.Positive(t, s.Bytes.Total)
	require.LessOrEqual(t, s.Bytes.Used+s.Bytes.Available, s.Bytes.Total)
	require.Positive(t, s.Inodes.Total)
	require.Equal(t, s.Inodes.Total, s.Inodes.Used+s.Inodes.Available)
	require.False(t, s.Condition.Abnormal)
	_, err = h.Stats(t.Context(), d, h.mkdir("other"), false)
	requireRejected(t, fsm.NotFound, err)
	_, err = h.Stats(t.Context(), d, h.dir+"/none", false)
	requireRejected(t, fsm.NotFound, err)
	raw, err := h.Stats(t.Context(), d, "", true)
	require.NoError(t, err)
	require.True(t, raw.Block)
	require.EqualValues(t, testSize, raw.Bytes.Total)
}

func TestUnmountLeavesMountsOnTop(t *testing.T) {
	h := newHost(t)
	d, staging := h.stageNew("ext4")
	require.NoError(t, unix.Mount("none", staging, "tmpfs", 0, ""))
	for range 2 {
		requireRejected(t, fsm.Busy, h.Unmount(t.Context(), d, staging))
	}
	require.NoError(t, unix.Unmount(staging, 0))
	require.NoError(t, os.Mkdir(staging+"/sub", 0o755))
	require.NoError(t, unix.Mount(staging+"/sub", staging, "", unix.MS_BIND, ""), "somebody stacks it")
	require.NoError(t, h.Unmount(t.Context(), d, staging))
	require.Empty(t, h.mounts(d), "all of the device's mounts at the path")
}

func BenchmarkMountUnmount(b *testing.B) {
	h := newHost(b)
	d, staging := h.stageNew("ext4")
	for b.Loop() {
		require.NoError(b, h.Unmount(b.Context(), d, staging))
		require.NoError(b, h.Mount(b.Context(), d, executor.MountOptions{Path: staging, FSType: "ext4"}))
	}
}

func BenchmarkProbe(b *testing.B) {
	h := newHost(b)
	d := h.device(1 << 30)
	for b.Loop() {
		_, err := h.Probe(b.Context(), d.Path, d.Size)
		require.NoError(b, err)
	}
}

// S73: what a bind would hide, or an unbind would have to leave, is refused, and stays.
func TestS73_BindCoversNothingThatExists(t *testing.T) {
	h := newHost(t)
	pod := h.mkdir("pod")
	d, staging := h.stageNew("ext4")
	raw := h.device(testSize)
	require.NoError(t, os.MkdirAll(pod+"/full/inside", 0o700))
	require.NoError(t, os.Mkdir(pod+"/empty", 0o700))
	require.NoError(t, os.WriteFile(pod+"/file", []byte("data"), 0o600))
	require.NoError(t, os.WriteFile(pod+"/none", nil, 0o600))
	require.NoError(t, os.Symlink(pod+"/empty", pod+"/link"))
	for path, reasons := range map[string][2]fsm.Reason{ // of a filesystem and of a node
		"/full": {fsm.Precondition, fsm.Precondition}, "/empty": {0, fsm.Precondition}, "/file": {fsm.Precondition, fsm.Precondition},
		"/none": {fsm.Precondition, 0}, "/link": {fsm.Invalid, fsm.Invalid}, "/missing": {0, 0}, "/no/parent": {fsm.Precondition, fsm.Precondition},
	} {
		for i, node := range []bool{false, true} {
			err := h.CheckTarget(pod+path, node)
			if reasons[i] == 0 {
				require.NoError(t, err, path)
				continue
			}
			requireRejected(t, reasons[i], err)
			if node {
				requireRejected(t, reasons[i], h.Bind(t.Context(), raw, executor.BindOptions{Path: pod + path, DeviceNode: true}))
			} else {
				requireRejected(t, reasons[i], h.Bind(t.Context(), d, executor.BindOptions{StagingPath: staging, Path: pod + path, FSType: "ext4"}))
			}
		}
	}
	requireRejected(t, fsm.Precondition, h.CheckTarget(staging, false))
	require.DirExists(t, pod+"/full/inside")
	require.Len(t, h.mounts(d), 1)
	require.Empty(t, h.mounts(raw))
}
