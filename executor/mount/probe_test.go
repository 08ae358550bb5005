package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/run"
	"github.com/holdfast-storage/holdfast/fsm"
)

func TestProbe(t *testing.T) {
	id := uuid.NewString()
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, h *testHost, d executor.Device)
		want    executor.Content
	}{
		"a new device is empty": {func(*testing.T, *testHost, executor.Device) {}, executor.Content{Read: true, Empty: true}},
		"ext4 is known by its uuid": {func(t *testing.T, h *testHost, d executor.Device) {
			require.NoError(t, h.Format(t.Context(), d.Path, executor.Filesystem{Type: "ext4", UUID: id}, false))
		}, executor.Content{Read: true, Found: executor.Filesystem{Type: "ext4", UUID: id}}},
		"xfs is known by its uuid": {func(t *testing.T, h *testHost, d executor.Device) {
			require.NoError(t, h.Format(t.Context(), d.Path, executor.Filesystem{Type: "xfs", UUID: id}, false))
		}, executor.Content{Read: true, Found: executor.Filesystem{Type: "xfs", UUID: id}}},
		"one byte at the end is not empty": {func(t *testing.T, _ *testHost, d executor.Device) {
			write(t, d.Path, d.Size-1, []byte{1})
		}, executor.Content{Read: true}},
		"one byte in the first MiB is not empty": {func(t *testing.T, _ *testHost, d executor.Device) {
			write(t, d.Path, 1<<20-1, []byte{1})
		}, executor.Content{Read: true}},
		"ext2 is not taken for ext4": {func(t *testing.T, _ *testHost, d executor.Device) {
			require.NoError(t, exec.Command("/usr/sbin/mkfs.ext2", "-q", "-U", id, d.Path).Run())
		}, executor.Content{Read: true, Found: executor.Filesystem{Type: "ext2", UUID: id}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			d := h.device(fsm.MinXFSSize)
			tc.prepare(t, h, d)
			for range 2 {
				got, err := h.Probe(t.Context(), d.Path, d.Size)
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
			}
		})
	}
}

func write(t testing.TB, path string, at int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(data, at)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

func TestS15_ADeviceThatCannotBeReadIsAnErrorNeverEmpty(t *testing.T) {
	h := newHost(t)
	d := h.device(testSize)
	image, err := os.ReadFile("/sys/block/" + filepath.Base(d.Path) + "/loop/backing_file")
	require.NoError(t, err)
	_, err = h.Probe(t.Context(), d.Path, 2*testSize)
	requireRejected(t, fsm.Precondition, err)
	require.NoError(t, os.Truncate(strings.TrimSpace(string(image)), testSize/2))
	_, err = h.Probe(t.Context(), d.Path, testSize)
	require.ErrorContains(t, err, "read its end", "the device kept its size; its end cannot be read")
	_, err = h.Probe(t.Context(), "/dev/none", testSize)
	require.Error(t, err)
}

func TestS15_FormatRefusesKnownContentUnlessRepeated(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs"} {
		t.Run(fsType, func(t *testing.T) {
			h := newHost(t)
			d := h.device(fsm.MinXFSSize)
			mine := executor.Filesystem{Type: fsType, UUID: uuid.NewString()}
			for again := range 2 {
				require.NoError(t, h.Format(t.Context(), d.Path, mine, again == 1))
			}
			got, err := h.Probe(t.Context(), d.Path, d.Size)
			require.NoError(t, err)
			require.Equal(t, mine, got.Found)
			require.NoError(t, h.Mount(t.Context(), d, executor.MountOptions{Path: h.mkdir("staging"), FSType: fsType}))
			require.Error(t, h.Format(t.Context(), d.Path, mine, true), "mkfs refuses a device that is mounted")
		})
	}
	t.Run("a filesystem that is neither", func(t *testing.T) {
		h := newHost(t)
		requireRejected(t, fsm.Invalid, h.Format(t.Context(), "/dev/none", executor.Filesystem{Type: "btrfs"}, false))
	})
}

func TestFormatSaysWhichToolFailed(t *testing.T) {
	h := newHost(t)
	err := h.Format(t.Context(), "/dev/none", executor.Filesystem{Type: "ext4", UUID: uuid.NewString()}, false)
	var failed *run.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "mkfs.ext4", failed.Tool)
}
