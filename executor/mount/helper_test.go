package mount

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

const testSize = 64 << 20

// testHost is a mounter that may touch one folder, which is a mount of its own.
type testHost struct {
	*Mounter
	dir string
	t   testing.TB
}

func newHost(t testing.TB) *testHost {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("no loop devices on this machine: %v", err)
	}
	dir := mountableDir(t)
	m, err := New(Config{Roots: []string{dir}, Runner: run.New()})
	require.NoError(t, err)
	m.shutdownTimeout = time.Minute
	h := &testHost{Mounter: m, dir: m.roots[0].real, t: t}
	t.Cleanup(func() {
		require.NoError(t, m.Close())
		h.unmountAll()
	})
	return h
}

// mountableDir is a temporary folder whose removal leaves alone what is still mounted there. That of t.TempDir does not.
func mountableDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-mount-")
	require.NoError(t, err)
	t.Cleanup(func() {
		out, err := exec.Command("rm", "-rf", "--one-file-system", dir).CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	return dir
}

// unmountAll takes everything off the folder, newest first, whatever the test did. It does not use what is tested: the folder is removed
// next, with all that is mounted there.
func (h *testHost) unmountAll() {
	text, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(h.t, err)
	for _, line := range slices.Backward(strings.Split(string(text), "\n")) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], h.dir+"/") {
			_ = unix.Unmount(fields[4], unix.MNT_DETACH)
		}
	}
}

// device is a loop device on a sparse file, removed when the test ends.
func (h *testHost) device(size int64) executor.Device {
	h.t.Helper()
	image := filepath.Join(h.t.TempDir(), "image")
	require.NoError(h.t, os.WriteFile(image, nil, 0o600))
	require.NoError(h.t, os.Truncate(image, size))
	out, err := exec.Command("/usr/sbin/losetup", "-f", "--show", image).Output()
	require.NoError(h.t, err)
	path := strings.TrimSpace(string(out))
	h.t.Cleanup(func() {
		h.unmountAll()
		require.NoError(h.t, exec.Command("/usr/sbin/losetup", "-d", path).Run())
	})
	var st unix.Stat_t
	require.NoError(h.t, unix.Stat(path, &st))
	return executor.Device{Exists: true, Size: size, Path: path, Number: st.Rdev}
}

func (h *testHost) mkdir(name string) string {
	h.t.Helper()
	dir := filepath.Join(h.dir, name)
	require.NoError(h.t, os.MkdirAll(dir, 0o755))
	return dir
}

// stageNew is a device with a filesystem that is mounted on the folder.
func (h *testHost) stageNew(fsType string) (executor.Device, string) {
	h.t.Helper()
	size := int64(testSize)
	if fsType == "xfs" {
		size = fsm.MinXFSSize
	}
	d, dir := h.device(size), h.mkdir("staging")
	require.NoError(h.t, h.Format(h.t.Context(), d.Path, executor.Filesystem{Type: fsType, UUID: uuid.NewString()}, false))
	require.NoError(h.t, h.Mount(h.t.Context(), d, executor.MountOptions{Path: dir, FSType: fsType}))
	return d, dir
}

func (h *testHost) mounts(d executor.Device) []executor.Mount {
	h.t.Helper()
	found, err := h.Mounts(h.t.Context(), d)
	require.NoError(h.t, err)
	return found
}

func requireRejected(t testing.TB, reason fsm.Reason, err error) {
	t.Helper()
	var rej *fsm.Rejection
	require.ErrorAs(t, err, &rej)
	require.Equal(t, reason, rej.Reason, rej.Message)
}
